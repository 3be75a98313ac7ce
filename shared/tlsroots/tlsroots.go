// Package tlsroots has the TLS configuration of our HTTP clients: they trust the system's authorities, and
// those in AO_CA.
package tlsroots

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"

	"ao/shared/fault"
)

// Config returns a client's TLS configuration that trusts the authorities in a file (AO_CA) besides the system's. No
// file: the system's only.
func Config(file string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return c, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("AO_CA %q cannot be read: %s; name a file of certificates (PEM)", file,
			fault.Describe(err))
	}
	pool, err := x509.SystemCertPool()
	if err != nil { // a machine without any
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("AO_CA %q contains no certificate; name a file of certificates "+
			"(PEM: -----BEGIN CERTIFICATE-----)", file)
	}
	c.RootCAs = pool
	return c, nil
}

// Explain returns why a server's certificate was not trusted and what to do; empty for other errors.
func Explain(err error) string {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		err = e.Err
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "its certificate is not trusted here: name the authority that signed it in AO_CA (a PEM file)"
	case errors.As(err, &host):
		return "its certificate is for another name (" + host.Error() +
			"): use a name that is in it, or make another one"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or this machine's clock is wrong (" + invalid.Error() + ")"
	case errors.As(err, &invalid):
		return "its certificate is not valid (" + invalid.Error() + "); if the authority is your own, name it in AO_CA"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)):
		return "it does not speak TLS: use http:// instead of https://"
	}
	return ""
}
