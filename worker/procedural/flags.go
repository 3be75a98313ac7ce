package procedural

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"ao/shared/fault"
	"ao/shared/wire"
)

// Flags turns a run's parameters into a command's arguments, in the caller's order (contract section 8):
//
//	string, number   --key value     numbers exactly as they were sent
//	true             --key
//	false, null      nothing
//	array            --key a,b,c     strings as they are, the rest as JSON; an empty one is an empty value
//	object           --key JSON
//
// A value that begins with '-' is passed as --key=value, so that no command takes it for a flag of its own. A key
// that could not be told from a value or another key is an Invalid fault with the field's name, and so is a NUL,
// which no argument can hold.
func Flags(params json.RawMessage) ([]string, error) {
	if p := bytes.TrimSpace(params); len(p) == 0 || string(p) == "null" {
		return nil, nil
	}
	members, err := wire.Members(params)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "parameters must be a JSON object").With("field", "parameters")
	}
	var args []string
	for _, m := range members {
		if why := oddKey(m.Key); why != "" {
			return nil, refuse(m.Key, why)
		}
		value, given, err := text(m.Value)
		if err != nil {
			return nil, refuse(m.Key, err.Error())
		}
		flag := "--" + m.Key
		switch {
		case !given:
		case strings.ContainsRune(value, 0):
			return nil, refuse(m.Key, "its value contains a NUL, which no command line can hold")
		case string(m.Value) == "true":
			args = append(args, flag)
		case strings.HasPrefix(value, "-"):
			args = append(args, flag+"="+value)
		default:
			args = append(args, flag, value)
		}
	}
	return args, nil
}

func refuse(key, why string) error {
	return fault.Newf(fault.Invalid, "parameter %.80q cannot be passed to a command: %s", key, why).With("field", key)
}

// oddKey says why a key cannot be a flag's name.
func oddKey(key string) string {
	switch {
	case key == "":
		return "the key is empty"
	case key[0] == '-':
		return "the key begins with '-'"
	case strings.Contains(key, "="):
		return "the key contains '='"
	case strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return "the key contains white space or a control character"
	}
	return ""
}

// text is a value as an argument; given is false for those that are not passed.
func text(raw json.RawMessage) (s string, given bool, err error) {
	switch raw[0] {
	case '"':
		err = json.Unmarshal(raw, &s)
		return s, true, err
	case 'f', 'n':
		return "", false, nil
	case '{':
		s, err = compact(raw)
		return s, true, err
	case '[':
		s, err = list(raw)
		return s, true, err
	}
	return string(raw), true, nil
}

// list joins an array's items by commas.
func list(raw json.RawMessage) (string, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return "", err
	}
	words := make([]string, len(items))
	for i, item := range items {
		var err error
		if item[0] == '"' {
			err = json.Unmarshal(item, &words[i])
		} else {
			words[i], err = compact(item)
		}
		if err != nil {
			return "", fmt.Errorf("item %d: %w", i, err)
		}
	}
	return strings.Join(words, ","), nil
}

// compact is JSON on one line, with every digit and the order of keys as they were.
func compact(raw json.RawMessage) (string, error) {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.String(), err
}
