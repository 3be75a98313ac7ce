package command

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"ao/coordinator/cmd/ao/connection"
	client "ao/shared/clients/go"
	"ao/shared/config"

	"github.com/spf13/cobra"
)

const aboutHealth = `Check GET /ready, for health checks of containers. Exit code 0 if the coordinator is
ready, 1 in every other case.

Without an address (--url or AO_URL) it checks the coordinator on this machine with the same settings: at the
port of AO_HTTP_ADDR, and with AO_TLS_CERT over https, trusting only that certificate, whatever its names.`

func healthCommand(a *app) *cobra.Command {
	c := &cobra.Command{Use: "health", Short: "Check whether the coordinator is ready: exit code 0, else 1",
		Args: noArguments, Long: aboutHealth}
	c.RunE = a.withClient(func(ctx context.Context, _ []string) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		asks, err := a.client, error(nil)
		if cmp.Or(a.url, os.Getenv("AO_URL")) == "" {
			asks, err = localCoordinator(os.Getenv)
		}
		var doc []byte
		if err == nil {
			doc, err = asks.Once().Read(ctx, nil, "ready")
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("not ready: no answer within 10 s")
		}
		switch {
		case err != nil:
			a.exit(c.CommandPath(), err)
			return exitCode(exitFailed) // health checkers give 2 and above another meaning
		case a.json:
			return a.printDoc(doc)
		}
		return a.print("ready\n")
	})
	return c
}

// localCoordinator returns a client for the coordinator on this machine with the same environment.
func localCoordinator(env func(string) string) (*client.Client, error) {
	host, port, err := net.SplitHostPort(cmp.Or(env("AO_HTTP_ADDR"), config.HTTPAddr.Default))
	if err != nil {
		return nil, fmt.Errorf("AO_HTTP_ADDR %q is not an address (host:port)", env("AO_HTTP_ADDR"))
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	at := net.JoinHostPort(host, port)
	file := env("AO_TLS_CERT")
	if file == "" {
		return connection.New(connection.Config{URL: "http://" + at})
	}
	name, err := certificateName(file)
	if err != nil {
		return nil, fmt.Errorf("AO_TLS_CERT %q: %w", file, err)
	}
	return connection.New(connection.Config{URL: "https://" + at, CA: file, Name: name})
}

// certificateName returns a name that the certificate covers.
func certificateName(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("contains no certificate (PEM)")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "", fmt.Errorf("contains no certificate: %w", err)
	case len(leaf.DNSNames) > 0:
		return strings.Replace(leaf.DNSNames[0], "*", "any", 1), nil
	case len(leaf.IPAddresses) > 0:
		return leaf.IPAddresses[0].String(), nil
	}
	return "", errors.New("certificate has no name")
}
