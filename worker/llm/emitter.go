package llm

import (
	"encoding/json"
	"strings"
	"time"

	"ao/shared/run"
	"ao/worker/llm/endpoint"
)

// A streamed answer becomes one message per finished block of text. A long block is emitted in pieces. It is cut at a
// line end from pieceSize bytes on, and at a paragraph end once the piece is pieceAge old. The pieces together are
// the complete text.
const (
	pieceSize = 16 << 10
	pieceAge  = 10 * time.Second
	maxAnswer = 2 << 20 // largest text of an answer, in bytes
)

// messageEmitter emits the model's text as messages while it is streamed.
type messageEmitter struct {
	emit    func(kind string, body json.RawMessage)
	size    int // bytes of this answer so far
	emitted bool
	piece   strings.Builder
	since   time.Time // start of the piece
}

// Text adds text of the answer.
func (s *messageEmitter) Text(delta string) error {
	s.size += len(delta)
	if s.size > maxAnswer {
		return &endpoint.BrokenResponse{Reason: "the answer's text has more than 2 MiB"}
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

// End emits the rest of a block.
func (s *messageEmitter) End() {
	if s.piece.Len() > 0 {
		s.emitPiece(s.piece.String())
		s.piece.Reset()
	}
}

// cut emits the piece up to the last mark; without a mark all of it, if it must.
func (s *messageEmitter) cut(mark string, must bool) {
	text := s.piece.String()
	at := strings.LastIndex(text, mark) + len(mark)
	if at < len(mark) {
		if !must {
			return
		}
		at = len(text) // it is not within a character: each delta is a whole JSON string
	}
	s.emitPiece(text[:at])
	s.piece.Reset()
	s.piece.WriteString(text[at:])
	s.since = time.Now()
}

func (s *messageEmitter) emitPiece(text string) {
	s.emitted = true
	s.emit(run.EventMessage, run.TextMessage("assistant", text))
}
