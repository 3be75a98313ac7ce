package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"ao/shared/fault"
)

// TestPlain: what Go's libraries report is put into words for people.
func TestPlain(t *testing.T) {
	t.Parallel()
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hanging.Close() })
	get := func(url string) error {
		c := http.Client{Timeout: 50 * time.Millisecond}
		res, err := c.Get(url)
		if err == nil {
			_ = res.Body.Close()
		}
		return err
	}
	read := func(text string, into any) error { return json.Unmarshal([]byte(text), into) }
	_, number := strconv.Atoi("x1")
	_, file := os.Open("/nowhere/at/all")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{get("http://127.0.0.1:1/"), "nothing listens there"},
		{get("http://" + hanging.Addr().String()), "no answer came in time"},
		{get("http://127.0.0.1:99999/"), `"99999" is not an address`},
		{&net.DNSError{Err: "no such host", Name: "nosuch.invalid", Server: "10.0.0.1:53", IsNotFound: true},
			`host "nosuch.invalid" not found`},
		{&net.OpError{Op: "dial", Net: "tcp",
			Err: &net.DNSError{Err: "server misbehaving", Name: "x", IsTemporary: true}},
			`the name "x" cannot be looked up`},
		{context.DeadlineExceeded, "no answer came in time"},
		{fmt.Errorf("what: %w", io.EOF), "what: EOF"},
		{context.Canceled, "it was cancelled"},
		{io.ErrUnexpectedEOF, "it ended too early"},
		{file, "no such file or directory"},
		{number, `"x1" is not such a number`},
		{read(`{"a":1,}`, new(any)), "unexpected '}' at byte 7"},
		{read(`{'a':1}`, new(any)), `unexpected '\'' at byte 1`},
		{read(`{"a":`, new(any)), "it ends too early"},
		{read(``, new(any)), "it ends too early"},
		{read(`{"a":"x"}`, &struct {
			A int `json:"a"`
		}{}), "a has the wrong type, string"},
		{errors.New("as it is"), "as it is"},
		{several{"a", "b"}, "2 errors"},
		{fault.New(fault.Invalid, "", "A fault says it"), "A fault says it"},
	} {
		if got := fault.Describe(tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

// several is an error that cannot be the key of a map.
type several []string

func (s several) Error() string { return fmt.Sprintf("%d errors", len(s)) }
