package llm

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"ao/shared/run"
	"ao/worker/llm/endpoint"
)

// What a reader of the session sees of a text that streams in: a message for each finished block of text. A block that is
// long in coming is told in pieces, cut where a reader would: at the end of a line once there are pieceSize bytes, at the
// end of a paragraph once the piece is pieceAge old. The pieces together are the text, every character of it.
const (
	pieceSize = 16 << 10
	pieceAge  = 10 * time.Second
	maxAnswer = 2 << 20 // bytes of one answer's text
)

// speaker tells what the model says, while it says it.
type speaker struct {
	tell  func(kind string, body json.RawMessage)
	said  int // bytes of this answer that were heard
	told  bool
	piece strings.Builder
	since time.Time // when the piece began
}

// Text hears more of the answer.
func (s *speaker) Text(delta string) error {
	if s.said += len(delta); s.said > maxAnswer {
		return &endpoint.Broken{Why: "the answer's text has no end: it has more than 2 MiB"}
	}
	if s.piece.Len() == 0 {
		s.since = time.Now()
	}
	s.piece.WriteString(delta)
	switch {
	case s.piece.Len() >= pieceSize:
		s.cut("\n", s.piece.Len() >= 2*pieceSize)
	case time.Since(s.since) >= pieceAge && strings.Contains(delta, "\n"):
		s.cut("\n\n", false)
	}
	return nil
}

// End tells what is left of a block.
func (s *speaker) End() {
	if s.piece.Len() > 0 {
		s.say(s.piece.String())
		s.piece.Reset()
	}
}

// cut tells the piece up to the last mark; all of it where there is none and it has to be.
func (s *speaker) cut(mark string, must bool) {
	text := s.piece.String()
	at := strings.LastIndex(text, mark) + len(mark)
	if at < len(mark) {
		if !must {
			return
		}
		for at = len(text); at > 0 && len(text)-at < utf8.UTFMax && !utf8.FullRuneInString(lastRune(text[:at])); at-- {
		}
	}
	s.say(text[:at])
	s.piece.Reset()
	s.piece.WriteString(text[at:])
	s.since = time.Now()
}

// lastRune is the text from the beginning of its last character.
func lastRune(s string) string {
	for i := len(s) - 1; i >= 0 && i >= len(s)-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

func (s *speaker) say(text string) {
	s.told = true
	s.tell(run.EventMessage, run.TextMessage("assistant", text))
}
