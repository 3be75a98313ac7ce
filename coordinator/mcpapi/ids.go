package mcpapi

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strconv"

	"ao/shared/strictjson"
)

// substitutes are strings that the SDK gets for ids that it would change: it reads numbers as floats, and unescapes
// strings. A client looks for its id as it sent it.
type substitutes []struct{ id, instead []byte }

// replace puts substitutes into a body, where the SDK would change an id. all are the body's messages.
func (s *substitutes) replace(body []byte, all []message) []byte {
	if !slices.ContainsFunc(all, message.changes) {
		return body
	}
	if !several(body) {
		return s.replaceOne(body)
	}
	var each []json.RawMessage
	_ = json.Unmarshal(body, &each) // it was read before
	replaced := make([][]byte, len(each))
	for i, one := range each {
		replaced[i] = s.replaceOne(one)
	}
	return slices.Concat([]byte("["), bytes.Join(replaced, []byte(",")), []byte("]"))
}

func (s *substitutes) replaceOne(body []byte) []byte {
	members, err := strictjson.Members(body)
	if err != nil { // no message: the SDK refuses it
		return body
	}
	for i, m := range members {
		if m.Key == "id" && (message{ID: m.Value}).changes() {
			instead := []byte(strconv.Quote(rand.Text()))
			*s = append(*s, struct{ id, instead []byte }{m.Value, instead})
			members[i].Value = instead
		}
	}
	return strictjson.Object(members)
}

// restore puts the ids back into an answer. Nothing else in it is equal to a substitute: they are random.
func (s substitutes) restore(answer []byte) []byte {
	for _, one := range s {
		answer = bytes.ReplaceAll(answer, one.instead, one.id)
	}
	return answer
}

// changes reports whether the SDK would not answer the message's id byte for byte.
func (m message) changes() bool {
	if len(m.ID) == 0 {
		return false
	}
	const exact = 1 << 53 // smaller whole numbers are the same as floats
	if n, err := strconv.ParseInt(string(m.ID), 10, 64); err == nil {
		return n <= -exact || exact <= n || strconv.FormatInt(n, 10) != string(m.ID)
	}
	escaped := func(c byte) bool { return c < ' ' || c > '~' || c == '\\' }
	return m.ID[0] == '"' && slices.ContainsFunc(m.ID, escaped) || m.ID[0] == '-' || '0' <= m.ID[0] && m.ID[0] <= '9'
}

// progressToken returns the token of the message's _meta as it came; nil: it has none.
func (m message) progressToken() json.RawMessage {
	var p struct {
		Meta struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(m.Params, &p) // an unreadable one is refused by others
	return p.Meta.ProgressToken
}
