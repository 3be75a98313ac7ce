package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Text takes anything.
func Text(raw string) (string, error) { return raw, nil }

// OneOf takes one of some words.
func OneOf(words ...string) func(string) (string, error) {
	return func(raw string) (string, error) {
		if slices.Contains(words, raw) {
			return raw, nil
		}
		return "", fmt.Errorf("must be %s", strings.Join(words, " or "))
	}
}

// Switch takes yes and no, in the usual spellings.
func Switch(raw string) (bool, error) {
	switch strings.ToLower(raw) {
	case "yes", "true", "1", "on":
		return true, nil
	case "no", "false", "0", "off":
		return false, nil
	}
	return false, errors.New("must be yes or no")
}

// not reads a switch whose value is the contrary of what is written.
func not(read func(string) (bool, error)) func(string) (bool, error) {
	return func(raw string) (bool, error) {
		on, err := read(raw)
		return !on, err
	}
}

// negativeZero gives -1 for 0: the zero value of a program's configuration stands for the default.
func negativeZero(read func(string) (int, error)) func(string) (int, error) {
	return func(raw string) (int, error) {
		n, err := read(raw)
		if n == 0 {
			n = -1
		}
		return n, err
	}
}

// Int takes a whole number within limits.
func Int(least, most int) func(string) (int, error) {
	return func(raw string) (int, error) {
		n, err := strconv.Atoi(raw)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		return n, nil
	}
}

// Duration takes seconds as a plain number, or a Go duration; at least so much.
func Duration(least time.Duration) func(string) (time.Duration, error) {
	return func(raw string) (time.Duration, error) {
		d, err := time.ParseDuration(raw)
		if seconds, plain := strconv.ParseFloat(raw, 64); plain == nil {
			err = nil
			if d = time.Duration(seconds * float64(time.Second)); math.IsNaN(seconds) || seconds*float64(time.Second) >= math.MaxInt64 {
				err = errors.New("out of range")
			}
		}
		switch {
		case err != nil:
			return 0, errors.New("is no duration (seconds, or like 1m30s)")
		case d < least:
			return 0, fmt.Errorf("is too short, at least %v", least)
		}
		return d, nil
	}
}

var units = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

// Bytes takes a size: a plain number of bytes, or one with KiB, MiB, GiB or TiB; within limits.
func Bytes(least, most int64) func(string) (int64, error) {
	return func(raw string) (int64, error) {
		for _, u := range units {
			number, ok := strings.CutSuffix(raw, u.suffix)
			if !ok {
				continue
			}
			n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
			if err != nil || n < 0 {
				break
			}
			if n > most/u.bytes || n*u.bytes < least {
				return 0, fmt.Errorf("must be from %d to %d bytes", least, most)
			}
			return n * u.bytes, nil
		}
		return 0, errors.New("is no size (bytes, or like 16MiB)")
	}
}

// Words takes a comma list. Empty items are left out.
func Words(raw string) ([]string, error) {
	var all []string
	for w := range strings.SplitSeq(raw, ",") {
		if w = strings.TrimSpace(w); w != "" && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all, nil
}

// Folders takes folders, separated as in PATH.
func Folders(raw string) ([]string, error) {
	return slices.DeleteFunc(filepath.SplitList(raw), func(s string) bool { return s == "" }), nil
}

// Folder takes a folder that exists and gives its absolute path.
func Folder(raw string) (string, error) {
	dir, err := filepath.Abs(raw)
	if err != nil {
		return "", fmt.Errorf("is no folder: %w", err)
	}
	switch i, err := os.Stat(dir); {
	case err != nil:
		return "", fmt.Errorf("cannot be used: %w", err)
	case !i.IsDir():
		return "", errors.New("is not a folder")
	}
	return dir, nil
}

// Address takes host:port to listen on; the host may be empty (all interfaces).
func Address(raw string) (string, error) {
	_, port, err := net.SplitHostPort(raw)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return "", errors.New("is no address (host:port)")
	}
	return raw, nil
}

// Loopback takes host:port to listen on that only this machine reaches.
func Loopback(raw string) (string, error) {
	if _, err := Address(raw); err != nil {
		return "", err
	}
	host, _, _ := net.SplitHostPort(raw)
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.Unmap().IsLoopback() {
		return raw, nil
	}
	return "", errors.New("can be reached from beyond this machine; use 127.0.0.1, [::1] or localhost")
}

// AddressOr takes host:port, or a word that stands for something else.
func AddressOr(word string) func(string) (string, error) {
	return func(raw string) (string, error) {
		if raw == word {
			return raw, nil
		}
		if _, err := Address(raw); err != nil {
			return "", fmt.Errorf("is neither an address (host:port) nor %q", word)
		}
		return raw, nil
	}
}

// natsURL takes the addresses of NATS servers, or "embed".
func natsURL(raw string) (string, error) {
	if raw == Embed {
		return raw, nil
	}
	for one := range strings.SplitSeq(raw, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return "", fmt.Errorf("is neither the URL of a NATS server nor %q", Embed)
		}
	}
	return raw, nil
}

// HTTPURL takes the address of an HTTP server, with a path perhaps; a slash at its end is left out.
func HTTPURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("is no address of an HTTP server (http:// or https://, a host, and no more than a path)")
	}
	return strings.TrimRight(raw, "/"), nil
}

// natsSync takes "always" or the time between syncs.
func natsSync(raw string) (string, error) {
	if raw == "always" {
		return raw, nil
	}
	d, err := Duration(time.Millisecond)(raw)
	if err != nil {
		return "", errors.New(`is neither "always" nor a duration`)
	}
	return d.String(), nil
}

// Networks takes a comma list of address ranges.
func Networks(raw string) (all []netip.Prefix, err error) {
	words, err := Words(raw)
	for _, w := range words {
		n, err := netip.ParsePrefix(w)
		if err != nil {
			return nil, fmt.Errorf("%q is no network", w)
		}
		all = append(all, n.Masked())
	}
	return all, err
}
