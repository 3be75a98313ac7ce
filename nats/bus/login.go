package bus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ao/nats/subject"
	"ao/shared/fault"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Login is how we log in to NATS and which servers we trust. The zero value has no login and trusts the
// system's authorities.
type Login struct {
	Creds string // AO_NATS_CREDS: file with the seed of an nkey user, or a .creds file (JWT and seed)
	CA    string // AO_NATS_CA: file of the authorities that are trusted instead of the system's
	Cert  string // AO_NATS_CERT, AO_NATS_KEY: the client certificate
	Key   string
}

// Options reads the files and returns the options of a connection. A user's inboxes are private.
func (l Login) Options() ([]nats.Option, error) {
	var opts []nats.Option
	if l.Creds != "" {
		text, err := os.ReadFile(l.Creds)
		if err != nil {
			return nil, fmt.Errorf("AO_NATS_CREDS %q cannot be read: %s; name the file nats.nk that 'ao init' "+
				"created for this program", l.Creds, fault.Describe(err))
		}
		pair, err := nkeys.ParseDecoratedUserNKey(text)
		if err != nil { // the cause may show the file's content
			return nil, fmt.Errorf("AO_NATS_CREDS %q contains no nkey of a user (a line that begins with SU); 'ao "+
				"init' creates such files", l.Creds)
		}
		defer pair.Wipe()
		key, err := pair.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("AO_NATS_CREDS %q: %w", l.Creds, err)
		}
		login := nats.UserCredentials(l.Creds)
		if !strings.Contains(string(text), "BEGIN NATS USER JWT") {
			login, err = nats.NkeyOptionFromSeed(l.Creds)
			if err != nil {
				return nil, fmt.Errorf("AO_NATS_CREDS %q: %w", l.Creds, err)
			}
		}
		// A server refuses logins for a moment while its users are changed: keep trying.
		opts = append(opts, login, nats.CustomInboxPrefix(subject.InboxPrefix(subject.CredentialID(key))),
			nats.IgnoreAuthErrorAbort())
	}
	own, err := l.tls()
	if own != nil {
		opts = append(opts, nats.Secure(own))
	}
	return opts, err
}

// SecretFiles returns this login's files and those beside it that this process can read. No program of a run should be
// able to read any. Those beside it are named NAME/nats.nk and NAME.env, by 'ao init' and the systemd units.
func (l Login) SecretFiles() []string {
	all := []string{l.Creds, l.Key}
	if l.Creds == "" {
		return all
	}
	above, own := filepath.Dir(filepath.Dir(filepath.Clean(l.Creds))), filepath.Base(l.Creds)
	folders, _ := os.ReadDir(above) // what cannot be listed has no files to report
	for _, f := range folders {
		for _, file := range []string{filepath.Join(above, f.Name(), own), filepath.Join(above, f.Name()+".env")} {
			if f.IsDir() && !slices.Contains(all, file) && syscall.Access(file, mayRead) == nil {
				all = append(all, file)
			}
		}
	}
	return all
}

const mayRead = 4 // R_OK of access(2)

// tls is nil without settings: then TLS is used if the server requires it, and the system's authorities are trusted.
func (l Login) tls() (*tls.Config, error) {
	if (l.Cert == "") != (l.Key == "") {
		return nil, errors.New("AO_NATS_CERT and AO_NATS_KEY must both be set, or neither")
	}
	if l.CA == "" && l.Cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if l.CA != "" {
		text, err := os.ReadFile(l.CA)
		if err != nil {
			return nil, fmt.Errorf("AO_NATS_CA %q cannot be read: %s; name a file of certificates (PEM)",
				l.CA, fault.Describe(err))
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("AO_NATS_CA %q contains no certificate (PEM: -----BEGIN CERTIFICATE-----)", l.CA)
		}
	}
	if l.Cert != "" {
		pair, err := tls.LoadX509KeyPair(l.Cert, l.Key)
		if err != nil {
			return nil, fmt.Errorf("AO_NATS_CERT %q with AO_NATS_KEY %q: %w", l.Cert, l.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// certificateHint returns what to do about a certificate that one side does not accept; "" for other errors.
func certificateHint(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "its certificate is not trusted here: " +
			"name the authority that signed it in AO_NATS_CA (the ca.crt of 'ao init')"
	case errors.As(err, &host):
		return "its certificate is for another name: " +
			"use one that is in it in AO_NATS_URL, or create another with 'ao init --tls --host NAME'"
	case errors.As(err, &invalid):
		return "its certificate is not valid, or this machine's clock is wrong; 'ao init --tls' renews those that " +
			"it created"
	case errors.Is(err, nats.ErrSecureConnWanted), errors.Is(err, nats.ErrSecureConnRequired):
		return "one side requires TLS and the other does not speak it: " +
			"see AO_NATS_CA, AO_NATS_CERT and the server's configuration"
	case strings.Contains(err.Error(), "certificate required"), strings.Contains(err.Error(), "bad certificate"):
		return "the server requires a certificate that it trusts: AO_NATS_CERT and AO_NATS_KEY"
	}
	return ""
}
