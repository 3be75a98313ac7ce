package keyring

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"slices"
	"time"

	"ao/nats/users"
)

// Lifetimes, and how long before its expiry a certificate is renewed.
const (
	authorityYears   = 10
	certificateYears = 2
	renewal          = 30 * 24 * time.Hour
)

// certificates creates the authority and the server certificates, if asked for or if an authority already exists. It
// returns the TLS part of the NATS configuration.
func (r *Result) certificates(w Options, all []users.User) (users.TLS, error) {
	_, err := os.Stat(r.path("ca/ca.crt"))
	switch {
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist):
		return users.TLS{}, err
	case !w.TLS:
		return users.TLS{}, nil
	}
	r.TLS = true
	ca, key, err := r.authority(w.Now)
	if err != nil {
		return users.TLS{}, err
	}
	root := string(encode("CERTIFICATE", ca.Raw))
	for _, folder := range append([]string{"nats", "client"}, names(all)...) {
		if err := r.writeDerived(folder+"/ca.crt", "the authority (AO_NATS_CA, AO_CA)", root); err != nil {
			return users.TLS{}, err
		}
	}
	if err := r.certificate("nats/server", "of NATS", w, ca, key); err != nil {
		return users.TLS{}, err
	}
	return users.TLS{Cert: r.path("nats/server.crt"), Key: r.path("nats/server.key")},
		r.certificate("coordinator/http", "of the HTTP API (AO_TLS_CERT, AO_TLS_KEY)", w, ca, key)
}

func names(all []users.User) (names []string) {
	for _, u := range all {
		names = append(names, u.Name)
	}
	return names
}

// authority reads or creates the certificate authority. Its key signs certificates; no program needs it.
func (r *Result) authority(now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	const file, what = "ca/ca", "signs the certificates; keep it off the servers"
	cert, key, err := r.pair(file)
	if err != nil {
		return nil, nil, err
	}
	if cert != nil {
		if now.After(cert.NotAfter.Add(-renewal)) {
			return nil, nil, fmt.Errorf("authority %s.crt expires on %s: remove the folder ca, create a new one with "+
				"'ao init --tls', and give its ca.crt to every client", r.path(file),
				cert.NotAfter.Format(time.DateOnly))
		}
		r.record(file+".key", stateKept, what)
		return cert, key, nil
	}
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template, err := newTemplate("Agent Orchestrator authority", now, authorityYears)
	if err != nil {
		return nil, nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	cert, err = r.sign(file, template, template, key, key)
	r.record(file+".key", stateMade, what)
	return cert, key, err
}

// certificate creates a server's certificate, unless a valid one covers the hosts and does not expire soon.
func (r *Result) certificate(file, of string, w Options, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	have, _, err := r.pair(file)
	if err != nil {
		return err
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	state := stateMade
	if have != nil {
		state = stateChanged
		for _, ip := range have.IPAddresses {
			hosts = append(hosts, ip.String())
		}
		hosts = append(hosts, have.DNSNames...)
	}
	missing := false
	for _, h := range w.Hosts {
		missing = missing || have != nil && have.VerifyHostname(h) != nil
		hosts = append(hosts, h)
	}
	what := "certificate " + of
	if have != nil && !missing && w.Now.Before(have.NotAfter.Add(-renewal)) && have.CheckSignatureFrom(ca) == nil {
		r.record(file+".crt", stateKept, what+", good until "+have.NotAfter.Format(time.DateOnly))
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate("Agent Orchestrator", w.Now, certificateYears)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	// servers of a cluster are also clients of each other
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip == nil && !slices.Contains(template.DNSNames, h) {
			template.DNSNames = append(template.DNSNames, h)
		} else if ip != nil && !slices.ContainsFunc(template.IPAddresses, ip.Equal) {
			template.IPAddresses = append(template.IPAddresses, ip)
		}
	}
	if template.NotAfter.After(ca.NotAfter) {
		template.NotAfter = ca.NotAfter
	}
	_, err = r.sign(file, template, ca, key, caKey)
	r.record(file+".crt", state, what+", good until "+template.NotAfter.Format(time.DateOnly))
	return err
}

// newTemplate returns an unsigned certificate.
func newTemplate(name string, now time.Time, years int) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(years, 0, 0), // clocks of other machines may be slow
	}, err
}

// sign creates a certificate and stores it with its key. The key is written first: a certificate never exists without
// one.
func (r *Result) sign(file string, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (
	*x509.Certificate, error) {
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(r.path(file + ".crt")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := r.write(file+".key", secret, encode("PRIVATE KEY", der)); err != nil {
		return nil, err
	}
	if err := r.write(file+".crt", public, encode("CERTIFICATE", raw)); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

func encode(kind string, der []byte) []byte {
	var b bytes.Buffer
	_ = pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}) // writing to a buffer cannot fail
	return b.Bytes()
}

// pair reads a certificate and its key; nil if the certificate does not exist.
func (r *Result) pair(file string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	cert, err := r.read(file + ".crt")
	if cert == nil || err != nil {
		return nil, nil, err
	}
	bad := func(why string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
		return nil, nil, fmt.Errorf("%s.crt and .key: %s; restore both, or remove both to create new ones",
			r.path(file), why)
	}
	block, _ := pem.Decode(cert)
	if block == nil {
		return bad("the certificate cannot be read")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return bad(err.Error())
	}
	text, err := r.read(file + ".key")
	if err != nil {
		return nil, nil, err
	}
	block, _ = pem.Decode(text)
	if block == nil {
		return bad("the key is missing, or cannot be read")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok || !key.PublicKey.Equal(c.PublicKey) {
		return bad("the key does not belong to the certificate")
	}
	return c, key, nil
}
