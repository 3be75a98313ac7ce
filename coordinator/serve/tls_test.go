package serve_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ao/coordinator/serve"
	"ao/nats/natstest"
	"ao/nats/subject"
	"ao/shared/runnerapi"
	"ao/shared/tlsroots"
)

// authority signs certificates for 127.0.0.1, with serial numbers from 1.
type authority struct {
	t      *testing.T
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	file   string // its own certificate
	serial int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.crt")}
	a.key = a.newKey()
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1000), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().
					Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(a.file, "CERTIFICATE", der)
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) write(path, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// sign makes a certificate and its key, and puts them into the files.
func (a *authority) sign(certFile, keyFile string) (serial int64) {
	a.t.Helper()
	a.serial++
	key := a.newKey()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "coordinator"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(certFile, "CERTIFICATE", der)
	a.write(keyFile, "EC PRIVATE KEY", secret)
	return a.serial
}

// client trusts the authority, and keeps no connection.
func (a *authority) client(most uint16) *http.Client {
	a.t.Helper()
	believes, err := tlsroots.Config(a.file)
	if err != nil {
		a.t.Fatal(err)
	}
	believes.MaxVersion = most
	if most != 0 {
		believes.MinVersion = tls.VersionTLS10 // it is the server that must refuse
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: believes, DisableKeepAlives: true},
		Timeout: 20 * time.Second}
}

// serialAt is the number of the certificate that is shown at an address.
func (a *authority) serialAt(url string) int64 {
	a.t.Helper()
	res, err := a.client(0).Get(url + "/health")
	if err != nil {
		a.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.TLS.PeerCertificates[0].SerialNumber.Int64()
}

// TestTLS: with a certificate the API is HTTPS, with TLS 1.2 at least. The error of a client that does not trust the
// certificate names AO_CA. Workers are given an HTTPS address too. A new certificate is served without a restart, a bad
// one never.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	first := a.sign(certFile, keyFile)
	var log lockedLog
	s := start(t, func(c *serve.Config) {
		c.TLSCert, c.TLSKey, c.Log = certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil))
	})
	if !strings.HasPrefix(s.url, "https://127.0.0.1:") {
		t.Fatalf("it serves at %s", s.url)
	}
	res, err := a.client(0).Get(s.url + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 || res.ProtoMajor != 1 {
		t.Errorf("%s %s", res.Proto, res.Status)
	}
	raw, err := json.Marshal(runnerapi.Registration{Runner: thinker("p")})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := s.bus.Request(t.Context(), subject.RunnerAPI(runnerapi.OpRegister), raw)
	if err != nil || !strings.Contains(string(answer), `"api_url":"`+s.url+`"`) {
		t.Errorf("it serves at %s, and workers get %s (%v)", s.url, answer, err)
	}

	if _, err := a.client(tls.VersionTLS11).Get(s.url + "/ready"); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	believes, err := tlsroots.Config("")
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&http.Client{Transport: &http.Transport{TLSClientConfig: believes}}).Get(s.url + "/ready")
	if why := tlsroots.Explain(err); !strings.Contains(why, "AO_CA") {
		t.Errorf("a client without the authority gets %q (%v)", why, err)
	}
	_, err = a.client(0).Get(strings.Replace(s.url, "127.0.0.1", "localhost", 1) + "/ready")
	if why := tlsroots.Explain(err); !strings.Contains(why, "is for another name") {
		t.Errorf("a client with another name gets %q (%v)", why, err)
	}
	plain, err := http.Get(strings.Replace(s.url, "https", "http", 1) + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(plain.Body)
	plain.Body.Close()
	if plain.StatusCode != 400 || !strings.Contains(string(body), "HTTPS server") {
		t.Errorf("without TLS: %s %s", plain.Status, body)
	}

	if err := os.WriteFile(certFile, []byte("half a cert"), 0o600); err != nil { // as while it is being replaced
		t.Fatal(err)
	}
	natstest.Until(t, "it was looked at", func() bool {
		if got := a.serialAt(s.url); got != first {
			t.Fatalf("shows certificate %d while the file is bad, want %d", got, first)
		}
		return strings.Contains(log.text(), "not reloaded")
	})
	second := a.sign(certFile, keyFile)
	natstest.Until(t, "the new certificate is shown", func() bool { return a.serialAt(s.url) == second })
}

// TestBadTLSSettings stop the start, and name what to set.
func TestBadTLSSettings(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	a.sign(in("a.crt"), in("a.key"))
	a.sign(in("b.crt"), in("b.key"))
	for _, tt := range []struct{ cert, key, say string }{
		{in("a.crt"), "", "AO_TLS_KEY is not"},
		{"", in("a.key"), "AO_TLS_CERT is not"},
		{in("none"), in("a.key"), `AO_TLS_CERT "` + in("none") + `" cannot be read`},
		{in("a.crt"), in("none"), `AO_TLS_KEY "` + in("none") + `" cannot be read`},
		{in("a.crt"), in("b.key"), "private key does not match"},
		{in("a.key"), in("a.key"), "are no certificate and its private key"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		err := serve.Run(ctx, serve.Config{HTTPAddr: "127.0.0.1:0", TLSCert: tt.cert, TLSKey: tt.key,
			NATS: serve.NATSConfig{URL: "embed", Listen: "none", DataDir: t.TempDir()}})
		cancel()
		if err == nil || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%q, %q: %v, want %s", tt.cert, tt.key, err, tt.say)
		}
	}
}

// TestTLSGrantsNoAccess: beyond loopback a certificate alone grants nothing.
func TestTLSGrantsNoAccess(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	a.sign(certFile, keyFile)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := serve.Run(ctx, serve.Config{HTTPAddr: "0.0.0.0:0", TLSCert: certFile, TLSKey: keyFile,
		NATS: serve.NATSConfig{URL: "embed", Listen: "none", DataDir: t.TempDir()}})
	if err == nil || !strings.Contains(err.Error(), "AO_API_TOKENS") {
		t.Errorf("%v", err)
	}
}
