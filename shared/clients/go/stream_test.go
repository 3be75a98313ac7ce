package ao

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestStream(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"one", "id: 1-2\nevent: init\ndata: {}\n\n", "1-2 init {}|"},
		{"no name, no id, no space", "data:x\n\n", "last message x|"},
		{"lines joined", "data: a\ndata: b\ndata:\n\n", "last message a\nb\n|"},
		{"comments and empties are nothing", ": ping\n\n\nevent: lost\n\ndata: x\n\n", "last message x|"},
		{"the id stays", "id: 7\ndata: a\n\ndata: b\n\n", "7 message a|7 message b|"},
		{"an id without data counts", "id: 7\n\ndata: b\n\n", "7 message b|"},
		{"an id with NUL does not", "id: 7\x00\ndata: b\n\n", "last message b|"},
		{"CRLF", "event: e\r\ndata: a\r\n\r\ndata: b\r\n\r\n", "last e a|last message b|"},
		{"only the first space goes", "data:  a\n\n", "last message  a|"},
		{"unknown fields", "foo: bar\nfoo\ndata: a\n\n", "last message a|"},
		{"data without colon", "data\n\n", "last message |"},
		{"cut off", "data: a\n\ndata: half", "last message a|"},
		{"cut off before the blank line", "data: a\n\ndata: whole\n", "last message a|"},
		{"nothing", "", ""},
	} {
		for way, r := range map[string]io.Reader{"whole": strings.NewReader(tt.in),
			"byte by byte": iotest.OneByteReader(strings.NewReader(tt.in))} {
			t.Run(tt.name+"/"+way, func(t *testing.T) {
				got := ""
				s := newStream(r, "last", 1<<10)
				m, err := s.next()
				for ; err == nil; m, err = s.next() {
					got += fmt.Sprintf("%s %s %s|", m.id, m.name, m.data)
				}
				if got != tt.want || err != errEnded {
					t.Errorf("got %q, %v; want %q", got, err, tt.want)
				}
			})
		}
	}
}

func TestStreamRetry(t *testing.T) {
	s := newStream(strings.NewReader("retry: 1500\nretry: soon\ndata: x\n\n"), "", 1<<10)
	if _, err := s.next(); err != nil || s.retry != 1500*time.Millisecond {
		t.Errorf("got %v, %v", s.retry, err)
	}
}

func TestStreamIsBounded(t *testing.T) {
	for in, want := range map[string]string{
		"data: " + strings.Repeat("x", 10_000):                            "too long",
		strings.Repeat("data: "+strings.Repeat("x", 4000)+"\n", 3) + "\n": "more than 8192 bytes",
	} {
		_, err := newStream(strings.NewReader(in), "", 8<<10).next()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
