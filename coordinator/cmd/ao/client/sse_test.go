package client

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
		{"CR", "event: e\rdata: a\r\rdata: b\r\r", "last e a|last message b|"},
		{"CRLF", "event: e\r\ndata: a\r\n\r\ndata: b\r\n\r\n", "last e a|last message b|"},
		{"byte order mark", "\ufeffdata: a\n\n", "last message a|"},
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
				s := newStream(r, "last")
				m, err := s.Next()
				for ; err == nil; m, err = s.Next() {
					got += fmt.Sprintf("%s %s %s|", m.ID, m.Name, m.Data)
				}
				if got != tt.want || err != io.EOF {
					t.Errorf("got %q, %v; want %q", got, err, tt.want)
				}
			})
		}
	}
}

func TestStreamRetry(t *testing.T) {
	s := newStream(strings.NewReader("retry: 1500\nretry: soon\ndata: x\n\n"), "")
	if _, err := s.Next(); err != nil || s.Retry != 1500*time.Millisecond {
		t.Errorf("got %v, %v", s.Retry, err)
	}
}

// TestStreamGivesAMessageAtOnce: a message that ended with CR is not held back until the next byte comes.
func TestStreamGivesAMessageAtOnce(t *testing.T) {
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	go func() { _, _ = w.Write([]byte("data: a\r\r")) }()
	if m, err := newStream(r, "").Next(); err != nil || string(m.Data) != "a" {
		t.Errorf("got %q, %v", m.Data, err)
	}
}

func TestStreamIsBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader("data: "), io.LimitReader(zeros{}, maxLine+10))
	if _, err := newStream(endless, "").Next(); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
