package llm

import (
	"encoding/json"
	"fmt"

	"ao/shared/fault"
	"ao/shared/strictjson"
	"ao/worker/llm/chat"
)

// maxHistory is the largest max_history_bytes of a profile.
const maxHistory = 16 << 20

// version is the version of a kept history. Unknown members are ignored, so an older worker can read additions of a
// newer one with the same version.
const version = 1

// history is a session's conversation. After repair the APIs always accept it: every call has a result, and every
// turn ends with the assistant.
type history struct {
	V       int    `json:"v"`
	Dropped int    `json:"dropped,omitempty"` // number of dropped turns, the oldest ones
	Turns   []turn `json:"turns"`
}

// turn is a prompt and what followed from it.
type turn struct {
	RunID    string         `json:"run_id"`
	Attempt  int            `json:"attempt"`
	Messages []chat.Message `json:"messages"`
}

// load decodes and repairs a kept history: the run that kept it may have ended at any point.
func load(raw []byte) (history, error) {
	var h history
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, fault.Newf(fault.Internal, "the session's conversation is unreadable: %v", err)
	}
	if h.V != version {
		return h, fault.New(fault.Internal, codeHistory,
			fmt.Sprintf("the session's conversation has version %d, but this worker reads version %d; run it on a "+
				"worker of that version, or start a new session", h.V, version))
	}
	for i := range h.Turns {
		h.Turns[i].repair("the worker ended during this turn")
	}
	return h, nil
}

// startTurn starts the run's turn. It removes the turn of an earlier attempt of the same run, which is done again.
func (h *history) startTurn(runID string, attempt int, prompt string) {
	for i, t := range h.Turns {
		if t.RunID == runID && t.Attempt < attempt {
			h.Turns = h.Turns[:i]
			break
		}
	}
	h.Turns = append(h.Turns, turn{RunID: runID, Attempt: attempt,
		Messages: []chat.Message{chat.TextMessage(chat.User, prompt)}})
}

func (h *history) current() *turn { return &h.Turns[len(h.Turns)-1] }

func (h *history) messages() []chat.Message {
	var all []chat.Message
	for _, t := range h.Turns {
		all = append(all, t.Messages...)
	}
	if h.Dropped == 0 || len(all) == 0 || all[0].Role != chat.User {
		return all
	}
	first := chat.Message{Role: chat.User, Blocks: append([]chat.Block{{Type: chat.Text,
		Text: droppedNote(h.Dropped) + "\n\n"}}, all[0].Blocks...)}
	return append([]chat.Message{first}, all[1:]...)
}

// withoutTools rewrites tool calls as text, for a model without tools: APIs refuse calls of unknown tools.
func withoutTools(all []chat.Message) []chat.Message {
	plain := make([]chat.Message, len(all))
	for i, m := range all {
		plain[i] = chat.Message{Role: m.Role}
		if m.Role == chat.Tool {
			plain[i].Role = chat.User
		}
		for _, b := range m.Blocks {
			switch b.Type {
			case chat.Call:
				b = chat.Block{Type: chat.Text, Text: fmt.Sprintf("[Called the tool %s with %s]", b.Name, b.Input)}
			case chat.Result:
				b = chat.Block{Type: chat.Text, Text: "[The tool's result: " + b.Text + "]"}
			}
			plain[i].Blocks = append(plain[i].Blocks, b)
		}
	}
	return plain
}

func droppedNote(turns int) string {
	if turns == 1 {
		return "[The first turn of this conversation was dropped: it was too long.]"
	}
	return fmt.Sprintf("[The first %d turns of this conversation were dropped: it was too long.]", turns)
}

// encode returns the history in at most limit bytes. It drops the oldest turns, never the last one. dropped is how
// many.
func (h *history) encode(limit int) (raw []byte, dropped int, err error) {
	for {
		raw, err = strictjson.Encode(h)
		if err != nil || len(raw) <= limit || len(h.Turns) <= 1 {
			break
		}
		h.Turns = h.Turns[1:]
		h.Dropped++
		dropped++
	}
	if err == nil && len(raw) > limit {
		err = fault.New(fault.TooLarge, codeTooLong,
			fmt.Sprintf("this turn alone has more than max_history_bytes (%d); raise it in the profile, or make "+
				"tools return less", limit)).
			With("max_history_bytes", limit)
	}
	return raw, dropped, err
}

// repair makes a turn valid for the APIs. It tells the model that calls without a result may or may not have been made,
// and why there is no answer.
func (t *turn) repair(why string) {
	for i := range t.Messages {
		if t.Messages[i].Role != chat.Assistant {
			continue
		}
		calls := t.Messages[i].Calls()
		if len(calls) == 0 || i+1 < len(t.Messages) {
			continue
		}
		t.Messages = append(t.Messages, chat.Message{Role: chat.Tool, Blocks: unknownResults(calls)})
	}
	if n := len(t.Messages); n == 0 || t.Messages[n-1].Role != chat.Assistant {
		t.Messages = append(t.Messages, chat.TextMessage(chat.Assistant, "[No answer: "+why+"]"))
	}
	t.dropProviderBlocks()
}

// unknownResults returns results for calls whose own are unknown.
func unknownResults(calls []chat.Block) []chat.Block {
	var results []chat.Block
	for _, c := range calls {
		results = append(results, chat.Block{Type: chat.Result, ID: c.ID, Failed: true,
			Text: "The run ended before this tool returned; the call may or may not have had effects"})
	}
	return results
}

// dropProviderBlocks removes blocks that only the provider's tool loop needs, once that is over.
func (t *turn) dropProviderBlocks() {
	for i, m := range t.Messages {
		var kept []chat.Block
		for _, b := range m.Blocks {
			if b.Type != chat.ProviderBlock {
				kept = append(kept, b)
			}
		}
		if len(kept) == 0 {
			kept = []chat.Block{{Type: chat.Text, Text: "[No text]"}}
		}
		t.Messages[i].Blocks = kept
	}
}

// replaceTooLong keeps only the turn's prompt, if it is short, and why the rest is missing.
func (t *turn) replaceTooLong(why string) {
	prompt := "[The prompt was too long to keep]"
	if len(t.Messages) > 0 {
		if text := t.Messages[0].Text(); len(text) < 64<<10 {
			prompt = text
		}
	}
	t.Messages = []chat.Message{chat.TextMessage(chat.User, prompt), chat.TextMessage(chat.Assistant,
		"[No answer: "+why+" What was done until then was too long to keep.]")}
}
