package command

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestHealthOfAContainer: with the coordinator's settings and no address, 'ao health' finds the coordinator. With TLS
// it trusts only the certificate of the settings, although that is for the name by which others reach the coordinator.
func TestHealthOfAContainer(t *testing.T) {
	t.Setenv("AO_URL", "")
	ready := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":"ready"}`)
	})
	shown, file := certificate(t, "build-1")
	_, other := certificate(t, "build-1")
	plain := httptest.NewServer(ready)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(ready)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{shown}}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for _, tt := range []struct {
		name, at, cert string
		code           int
		say            string
	}{
		{"plain", plain.URL, "", 0, "ready"},
		{"with TLS", secure.URL, file, 0, "ready"},
		{"with another one's certificate", secure.URL, other, exitFailed, "certificate"},
		{"with no certificate", secure.URL, filepath.Join(t.TempDir(), "none"), exitFailed, "AO_TLS_CERT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, port, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(tt.at, "http://"), "https://"), ":")
			t.Setenv("AO_HTTP_ADDR", "0.0.0.0:"+port)
			t.Setenv("AO_TLS_CERT", tt.cert)
			out, errs, code := ao(t, "", "", "health")
			if code != tt.code || !strings.Contains(out+errs, tt.say) {
				t.Errorf("got %d, %q, %q; want %d and %q", code, out, errs, tt.code, tt.say)
			}
		})
	}
}

// certificate makes one that signs itself, and a file of it.
func certificate(t *testing.T, name string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour)}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "http.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, file
}
