package llm

import (
	"encoding/json"
	"fmt"

	"ao/shared/fault"
	"ao/shared/strictjson"
	"ao/worker/llm/chat"
)

// maxHistory is the largest history that a profile may ask for, in bytes.
const maxHistory = 16 << 20

// version is the version of a kept history. Unknown members are ignored, so that an older worker can read what a newer one
// of the same version added.
const version = 1

// history is a session's conversation, as it is kept. What it holds is always accepted by the APIs once it was mended:
// every call has its result, and every turn ends with the assistant.
type history struct {
	V       int    `json:"v"`
	Dropped int    `json:"dropped,omitempty"` // turns that were left out, being the oldest
	Turns   []turn `json:"turns"`
}

// turn is what came of one prompt.
type turn struct {
	RunID    string         `json:"run_id"`
	Attempt  int            `json:"attempt"`
	Messages []chat.Message `json:"messages"`
}

// load reads what was kept and mends it: the run that kept it may have ended at any point.
func load(raw []byte) (history, error) {
	var h history
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, fault.Newf(fault.Internal, "The session's kept conversation cannot be read: %v", err)
	}
	if h.V != version {
		return h, fault.New(fault.Internal, codeHistory, fmt.Sprintf("The session's conversation was kept in version %d, and this worker reads version %d; run it on a worker of that version, or start a new session", h.V, version))
	}
	for i := range h.Turns {
		h.Turns[i].mend("the worker ended in its middle")
	}
	return h, nil
}

// begin begins the run's turn. What an earlier attempt of the same run left is taken out: it is done again.
func (h *history) begin(runID string, attempt int, prompt string) {
	for i, t := range h.Turns {
		if t.RunID == runID && t.Attempt < attempt {
			h.Turns = h.Turns[:i]
			break
		}
	}
	h.Turns = append(h.Turns, turn{RunID: runID, Attempt: attempt, Messages: []chat.Message{chat.Say(chat.User, prompt)}})
}

// now is the turn under way.
func (h *history) now() *turn { return &h.Turns[len(h.Turns)-1] }

// messages are what the model is told.
func (h *history) messages() []chat.Message {
	var all []chat.Message
	for _, t := range h.Turns {
		all = append(all, t.Messages...)
	}
	if h.Dropped == 0 || len(all) == 0 || all[0].Role != chat.User {
		return all
	}
	first := chat.Message{Role: chat.User, Blocks: append([]chat.Block{{Type: chat.Text, Text: lost(h.Dropped) + "\n\n"}}, all[0].Blocks...)}
	return append([]chat.Message{first}, all[1:]...)
}

// plain is a conversation without tools, for a model that is given none: APIs refuse calls of tools that they do not know of.
func plain(all []chat.Message) []chat.Message {
	told := make([]chat.Message, len(all))
	for i, m := range all {
		told[i] = chat.Message{Role: m.Role}
		if m.Role == chat.Tool {
			told[i].Role = chat.User
		}
		for _, b := range m.Blocks {
			switch b.Type {
			case chat.Call:
				b = chat.Block{Type: chat.Text, Text: fmt.Sprintf("[Called the tool %s with %s]", b.Name, b.Input)}
			case chat.Result:
				b = chat.Block{Type: chat.Text, Text: "[The tool's result: " + b.Text + "]"}
			}
			told[i].Blocks = append(told[i].Blocks, b)
		}
	}
	return told
}

// lost is what stands for turns that are not there any more.
func lost(turns int) string {
	if turns == 1 {
		return "[The first turn of this conversation was left out: it had become too long.]"
	}
	return fmt.Sprintf("[The first %d turns of this conversation were left out: it had become too long.]", turns)
}

// encode gives what to keep, at most limit bytes: the oldest turns go first, never the last. dropped is how many went now.
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
		err = fault.New(fault.TooLarge, codeTooLong, fmt.Sprintf("This turn alone has more than max_history_bytes (%d); raise it in the profile, or have tools answer with less", limit)).
			With("max_history_bytes", limit)
	}
	return raw, dropped, err
}

// mend makes a turn one that the APIs accept, and that tells the model what it must know: calls without a result may or
// may not have been done, and a turn that did not end with an answer says why.
func (t *turn) mend(why string) {
	for i := range t.Messages {
		if t.Messages[i].Role != chat.Assistant {
			continue
		}
		calls := t.Messages[i].Calls()
		if len(calls) == 0 || i+1 < len(t.Messages) {
			continue
		}
		t.Messages = append(t.Messages, chat.Message{Role: chat.Tool, Blocks: unanswered(calls)})
	}
	if n := len(t.Messages); n == 0 || t.Messages[n-1].Role != chat.Assistant {
		t.Messages = append(t.Messages, chat.Say(chat.Assistant, "[No answer: "+why+"]"))
	}
	t.settle()
}

// unanswered are results that stand for calls whose own are not known.
func unanswered(calls []chat.Block) []chat.Block {
	var results []chat.Block
	for _, c := range calls {
		results = append(results, chat.Block{Type: chat.Result, ID: c.ID, Failed: true,
			Text: "The run ended before this tool's result was known; what was asked for may or may not have been done"})
	}
	return results
}

// settle takes out what only the provider's own tool loop needs, once that is over.
func (t *turn) settle() {
	for i, m := range t.Messages {
		var kept []chat.Block
		for _, b := range m.Blocks {
			if b.Type != chat.Own {
				kept = append(kept, b)
			}
		}
		if len(kept) == 0 {
			kept = []chat.Block{{Type: chat.Text, Text: "[No text]"}}
		}
		t.Messages[i].Blocks = kept
	}
}

// shorten leaves the turn's prompt, as far as it is short, and why there is no more of it: what is kept instead of a turn that is
// too large.
func (t *turn) shorten(why string) {
	prompt := "[The prompt was too long to be kept]"
	if len(t.Messages) > 0 {
		if text := t.Messages[0].Text(); len(text) < 64<<10 {
			prompt = text
		}
	}
	t.Messages = []chat.Message{chat.Say(chat.User, prompt), chat.Say(chat.Assistant, "[No answer: "+why+" What was done by then was too long to be kept.]")}
}
