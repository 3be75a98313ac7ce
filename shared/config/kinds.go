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

// text accepts anything.
func text(raw string) (string, error) { return raw, nil }

// oneOf accepts one of some words.
func oneOf(words ...string) func(string) (string, error) {
	return func(raw string) (string, error) {
		if slices.Contains(words, raw) {
			return raw, nil
		}
		return "", fmt.Errorf("must be %s", strings.Join(words, " or "))
	}
}

// yesOrNo accepts yes and no, in the usual spellings.
func yesOrNo(raw string) (bool, error) {
	switch strings.ToLower(raw) {
	case "yes", "true", "1", "on":
		return true, nil
	case "no", "false", "0", "off":
		return false, nil
	}
	return false, errors.New("must be yes or no")
}

// inverted returns a switch with the opposite value.
func inverted(read func(string) (bool, error)) func(string) (bool, error) {
	return func(raw string) (bool, error) {
		on, err := read(raw)
		return !on, err
	}
}

// negativeZero turns 0 into -1: in a program's configuration zero means the default.
func negativeZero(read func(string) (int, error)) func(string) (int, error) {
	return func(raw string) (int, error) {
		n, err := read(raw)
		if n == 0 {
			n = -1
		}
		return n, err
	}
}

// wholeNumber accepts a whole number within limits.
func wholeNumber(least, most int) func(string) (int, error) {
	return func(raw string) (int, error) {
		n, err := strconv.Atoi(raw)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		return n, nil
	}
}

// duration accepts seconds as a number, or a Go duration, of at least the given one.
func duration(least time.Duration) func(string) (time.Duration, error) {
	return func(raw string) (time.Duration, error) {
		d, err := time.ParseDuration(raw)
		if seconds, plain := strconv.ParseFloat(raw, 64); plain == nil {
			err = nil
			d = time.Duration(seconds * float64(time.Second))
			if math.IsNaN(seconds) || seconds*float64(time.Second) >= math.MaxInt64 {
				err = errors.New("out of range")
			}
		}
		switch {
		case err != nil:
			return 0, errors.New("is not a duration (seconds, or like 1m30s)")
		case d < least:
			return 0, fmt.Errorf("is too short, at least %v", least)
		}
		return d, nil
	}
}

var units = []struct {
	suffix string
	bytes  int64
}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"kb", 1 << 10}, {"mb", 1 << 20},
	{"gb", 1 << 30}, {"b", 1}, {"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"", 1}} // from kb on they are Docker's

// size accepts a number of bytes, or one with KiB, MiB, GiB or TiB, within limits. It also accepts the forms of Docker,
// which counts in powers of two: 2g, 512MB, 1.5gb.
func size(least, most int64) func(string) (int64, error) {
	return func(raw string) (int64, error) {
		for _, u := range units {
			number, ok := strings.CutSuffix(strings.ToLower(raw), u.suffix)
			if !ok {
				continue
			}
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !(n >= 0) || strings.ContainsAny(number, "eExXpPiInN_") {
				break
			}
			if n*float64(u.bytes) > float64(most) || n*float64(u.bytes) < float64(least) {
				return 0, fmt.Errorf("must be from %d to %d bytes", least, most)
			}
			return int64(n * float64(u.bytes)), nil
		}
		return 0, errors.New("is not a size (bytes, or like 16MiB)")
	}
}

// wordList accepts a comma list. Empty items are ignored.
func wordList(raw string) ([]string, error) {
	var all []string
	for w := range strings.SplitSeq(raw, ",") {
		w = strings.TrimSpace(w)
		if w != "" && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	return all, nil
}

// folders accepts folders, separated as in PATH.
func folders(raw string) ([]string, error) {
	return slices.DeleteFunc(filepath.SplitList(raw), func(s string) bool { return s == "" }), nil
}

// folder accepts an existing folder and returns its absolute path.
func folder(raw string) (string, error) {
	dir, err := filepath.Abs(raw)
	if err != nil {
		return "", fmt.Errorf("is not a folder: %w", err)
	}
	switch i, err := os.Stat(dir); {
	case err != nil:
		return "", fmt.Errorf("cannot be used: %w", err)
	case !i.IsDir():
		return "", errors.New("is not a folder")
	}
	return dir, nil
}

// address accepts host:port to listen on. An empty host means all interfaces.
func address(raw string) (string, error) {
	_, port, err := net.SplitHostPort(raw)
	if n, bad := strconv.Atoi(port); err != nil || bad != nil || n < 0 || n > 65535 {
		return "", errors.New("is not an address (host:port)")
	}
	return raw, nil
}

// Loopback accepts host:port to listen on that only this machine can reach.
func Loopback(raw string) (string, error) {
	if _, err := address(raw); err != nil {
		return "", err
	}
	host, _, _ := net.SplitHostPort(raw)
	if ip, err := netip.ParseAddr(host); host == "localhost" || err == nil && ip.Unmap().IsLoopback() {
		return raw, nil
	}
	return "", errors.New("can be reached from beyond this machine; use 127.0.0.1, [::1] or localhost")
}

// addressOr accepts host:port, or a word with another meaning.
func addressOr(word string) func(string) (string, error) {
	return func(raw string) (string, error) {
		if raw == word {
			return raw, nil
		}
		if _, err := address(raw); err != nil {
			return "", fmt.Errorf("is neither an address (host:port) nor %q", word)
		}
		return raw, nil
	}
}

// natsURL accepts addresses of NATS servers, or "embed".
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

// httpURL accepts the address of an HTTP server, perhaps with a path. A trailing slash is removed.
func httpURL(raw string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("is not an address of an HTTP server (http:// or https://, a host, and at most a path)")
	}
	return strings.TrimRight(raw, "/"), nil
}

// natsSync accepts "always" or the time between syncs.
func natsSync(raw string) (string, error) {
	if raw == "always" {
		return raw, nil
	}
	d, err := duration(time.Millisecond)(raw)
	if err != nil {
		return "", errors.New(`is neither "always" nor a duration`)
	}
	return d.String(), nil
}

// networks accepts a comma list of address ranges.
func networks(raw string) (all []netip.Prefix, err error) {
	words, err := wordList(raw)
	for _, w := range words {
		n, err := netip.ParsePrefix(w)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network", w)
		}
		all = append(all, n.Masked())
	}
	return all, err
}
