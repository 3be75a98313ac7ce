// Package tlsroots says whose certificates our HTTP clients believe: those that the system trusts, and those that AO_CA names.
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

// Config is how a client speaks TLS that trusts the authorities of a file (AO_CA) beside the system's. No file: the system's alone.
func Config(file string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return c, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("AO_CA %q cannot be read: %s; name a file of certificates (PEM)", file, fault.Describe(err))
	}
	pool, err := x509.SystemCertPool()
	if err != nil { // a machine without any
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("AO_CA %q holds no certificate; name a file of certificates (PEM: -----BEGIN CERTIFICATE-----)", file)
	}
	c.RootCAs = pool
	return c, nil
}

// Explain says in words why a server's certificate was not believed, and what to do; empty: that is not what went wrong.
func Explain(err error) string {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		err = e.Err
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "its certificate is not trusted here: name the authority that signed it in AO_CA (a PEM file), beside those of the system"
	case errors.As(err, &host):
		return "its certificate is for another name (" + host.Error() + "): use a name that is in it, or make one with the name that is used"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or this machine's clock is wrong (" + invalid.Error() + ")"
	case errors.As(err, &invalid):
		return "its certificate is not valid (" + invalid.Error() + "); where the authority is one of your own, name it in AO_CA"
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)):
		return "it does not speak TLS: use http:// instead of https://"
	}
	return ""
}
