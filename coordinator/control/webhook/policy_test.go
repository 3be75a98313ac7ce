package webhook

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"ao/shared/fault"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestCheck(t *testing.T) {
	off := Policy{Secret: secret}
	some := Policy{Hosts: []string{"hooks.example.com", "*.Example.org", "192.0.2.7", "93.184.216.34"}}
	any := Policy{Hosts: []string{"*"}}
	private := Policy{Hosts: []string{"*"}, Networks: prefixes("10.0.0.0/8", "127.0.0.1/32", "fd00::/8")}
	for _, tt := range []struct {
		policy Policy
		url    string
		want   string // a part of the refusal; none: it is allowed
	}{
		{off, "https://hooks.example.com/x", "AO_CALLBACK_HOSTS"},
		{Policy{}, "", "disabled"},
		{some, "https://hooks.example.com/x?y=z", ""},
		{some, "https://HOOKS.example.COM:8443", ""},
		{some, "https://hooks.example.com./", ""},
		{some, "https://other.example.com/", "not among the hosts"},
		{some, "https://a.b.example.org/", ""},
		{some, "https://example.org/", "not among the hosts"},
		{some, "https://badexample.org/", "not among the hosts"},
		{some, "https://hooks.example.com.evil.test/", "not among the hosts"},
		{some, "https://93.184.216.34/", ""},
		{some, "https://192.0.2.7/", "not public"},
		{any, "https://93.184.216.35/", ""},
		{any, "https://[2606:2800:220:1::1]/", ""},
		{any, "https://xn--bcher-kva.example/", ""},

		{any, "", "not a URL"},
		{any, "/x", "not a URL"},
		{any, "https:///x", "not a URL"},
		{any, "https:example.com", "not a URL"},
		{any, "https://%zz/", "not a URL"},
		{any, "ftp://example.com/", "scheme"},
		{any, "file:///etc/passwd", "not a URL"},
		{any, "http://example.com/", "https"},
		{any, "http://93.184.216.34/", "https"},
		{any, "https://u:p@example.com/", "password"},
		{any, "https://example.com@127.0.0.1/", "password"},
		{any, "https://example.com/#x", "fragment"},
		{any, "https://example.com/#", "fragment"},
		{any, "https://example.com:0/", "port"},
		{any, "https://example.com:65536/", "port"},
		{any, "https://example.com:/", "port"},
		{any, "https://example.com\\@127.0.0.1/", "character"},
		{any, "https://exam\nple.com/", "character"},
		{any, "https://bücher.example/", "character"},
		{any, "https://a..b/", "not a host name"},
		{any, "https://a b/", "character"},
		{any, "https://a%20b/", "no"},
		{any, "https://example.com/" + strings.Repeat("x", 2048), "at most 2048"},

		{any, "https://localhost/", "own machine"},
		{any, "https://a.LOCALHOST./", "own machine"},
		{any, "https://127.0.0.1/", "not public"},
		{any, "https://127.0.0.1./", "a number"},
		{any, "https://127.1/", "a number"},
		{any, "https://2130706433/", "a number"},
		{any, "https://0x7f.1/", "a number"},
		{any, "https://0x7f000001/", "a number"},
		{any, "https://127.0.0.0x1/", "a number"},
		{any, "https://0177.0.0.1/", "a number"},
		{any, "https://%31%32%37.0.0.1/", "no"},
		{any, "https://1.2.3.4.5/", "a number"},
		{any, "https://169.254.169.254/latest", "not public"},
		{any, "https://[::1]/", "not public"},
		{any, "https://[::]/", "not public"},
		{any, "https://[::ffff:127.0.0.1]/", "not public"},
		{any, "https://[::ffff:7f00:1]/", "not public"},
		{any, "https://[::127.0.0.1]/", "not public"},
		{any, "https://[64:ff9b::10.0.0.1]/", "not public"},
		{any, "https://[2002:7f00:1::]/", "not public"},
		{any, "https://[fe80::1%25eth0]/", "not public"},
		{any, "https://[fd00::1]/", "not public"},
		{any, "https://[127.0.0.1]/", "no"},
		{any, "https://[example.com]/", "no"},

		{private, "http://10.1.2.3:8080/", ""},
		{private, "http://[::ffff:10.1.2.3]:8080/", ""},
		{private, "http://[fd00::1]/", ""},
		{private, "http://receiver:8080/", ""}, // looked at when it is delivered
		{private, "http://localhost/", ""},
		{private, "https://10.1.2.3/", ""},
		{private, "https://192.168.0.1/", "not public"},
		{private, "http://93.184.216.34/", "https"},
		{private, "http://[64:ff9b::10.0.0.1]/", "not public"},
	} {
		t.Run(tt.url, func(t *testing.T) {
			err := tt.policy.Check(tt.url)
			if tt.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			f := fault.Of(err)
			if err == nil || f.Kind != fault.Invalid || !strings.Contains(f.Message, tt.want) ||
				!strings.HasPrefix(f.Message, "callback_url ") ||
				len(f.Fields) != 1 ||
				f.Fields[0] != (fault.Field{Name: "field", Value: "callback_url"}) {
				t.Errorf("got %+v, want a refusal with %q", err, tt.want)
			}
		})
	}
}

func TestPublicAddresses(t *testing.T) {
	for _, tt := range []struct {
		public bool
		addrs  string
	}{
		{true, "1.1.1.1 93.184.216.34 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 223.255.255.255 " +
			"2606:4700::1 2a00:1450::1 ::ffff:1.1.1.1 64:ff9b::1.1.1.1"},
		{false, "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 169.254.169.254 " +
			"172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 " +
			"198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255"},
		{false, ":: ::1 ::7f00:1 ::ffff:10.0.0.1 64:ff9b::127.0.0.1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 100::1 2001::1 " +
			"2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:808:808::1 2002:a00:1::1 3fff::1 5f00::1 fc00::1 " +
			"fd12::1 fe80::1 fec0::1 ff02::1 2a00:1450::5efe:10.0.0.1 2a00:1450::200:5efe:127.0.0.1"},
	} {
		for a := range strings.FieldsSeq(tt.addrs) {
			if got := isPublic(netip.MustParseAddr(a)); got != tt.public {
				t.Errorf("%s: public %v", a, got)
			}
		}
	}
	if isPublic(netip.Addr{}) {
		t.Error("no address is public")
	}
}

func TestInvalidPolicyIsNamed(t *testing.T) {
	for _, tt := range []struct {
		policy Policy
		want   string
	}{
		{Policy{}, ""},
		{Policy{Hosts: []string{"*", "*.example.com", "a", "10.0.0.1", "::1"}, Networks: prefixes("10.0.0.0/8"),
			Secret: secret + ", " + secret + "\n"}, ""},
		{Policy{Hosts: []string{"https://x"}, Secret: secret}, "AO_CALLBACK_HOSTS"},
		{Policy{Hosts: []string{"a.*.b"}, Secret: secret}, "AO_CALLBACK_HOSTS"},
		{Policy{Hosts: []string{""}, Secret: secret}, "AO_CALLBACK_HOSTS"},
		{Policy{Hosts: []string{"a"}, Networks: []netip.Prefix{{}}, Secret: secret}, "AO_CALLBACK_NETWORKS"},
		{Policy{Hosts: []string{"a"}}, "AO_CALLBACK_SECRET"},
		{Policy{Hosts: []string{"a"}, Secret: "hunter2"}, "AO_CALLBACK_SECRET"},
		{Policy{Hosts: []string{"a"}, Secret: "whsec_hunter2="}, "AO_CALLBACK_SECRET"},
		{Policy{Hosts: []string{"a"}, Secret: secret + " whsec_c2hvcnQ="}, "AO_CALLBACK_SECRET"},
		{Policy{Secret: "whsec_c2hvcnQ="}, "AO_CALLBACK_SECRET"},
	} {
		err := tt.policy.Valid()
		if (err == nil) != (tt.want == "") ||
			err != nil &&
				(!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") ||
					strings.Contains(err.Error(), "c2hv")) {
			t.Errorf("%v: got %v, want %q", tt.policy.Hosts, err, tt.want)
		}
		if _, newErr := New(Config{Policy: tt.policy}); (newErr == nil) != (err == nil) {
			t.Errorf("%v: New says %v", tt.policy.Hosts, newErr)
		}
	}
	if s := (Policy{Secret: secret}).LogValue().String(); strings.Contains(s, secret) {
		t.Errorf("the log shows %s", s)
	}
}

func TestSchedule(t *testing.T) {
	var all string
	var sum time.Duration
	for n := 0; ; n++ {
		wait, last := backoff(n)
		if last {
			if wait != 0 || n != 10 {
				t.Errorf("try %d was the last, wait %v", n, wait)
			}
			break
		}
		if n > 0 {
			all += wait.String() + " "
			sum += wait
		}
	}
	if all != "5s 5m0s 30m0s 2h0m0s 5h0m0s 10h0m0s 14h0m0s 20h0m0s 24h0m0s " || sum < 75*time.Hour {
		t.Errorf("got %s", all)
	}
	if first, _ := backoff(0); first != 5*time.Second {
		t.Errorf("before any try: %v", first)
	}
}
