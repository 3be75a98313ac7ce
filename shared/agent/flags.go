package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"ao/shared/fault"
	"ao/shared/run"
	"ao/shared/strictjson"
)

// The limits of a command line on every worker. The program's environment, its name and the arguments of a
// sandbox use the rest of what Linux allows.
const (
	maxArgument = 128<<10 - 1 // of one argument: the kernel's MAX_ARG_STRLEN with its NUL
	// of all, each with its NUL; the kernel allows 2 MiB with the environment
	maxArguments = 3 << 19
	maxCount     = 8192 // number of arguments; bubblewrap accepts 9000 with its own
)

// CheckParameters checks whether the agent can get these parameters, which its schema allows. A procedural agent's are
// command-line arguments: if no command line can hold them, the error is an Invalid fault with the field's path.
func (b Blueprint) CheckParameters(params json.RawMessage) error {
	if b.Type != run.Procedural {
		return nil
	}
	args, bytes := 0, 0
	err := flags(params, func(key, arg string) error {
		if len(arg) > maxArgument {
			return refuse(key,
				fmt.Sprintf("its argument has %d bytes, and one may have %d: split it, or write it to a file "+
					"and pass its path", len(arg), maxArgument)).With("limit", maxArgument)
		}
		args, bytes = args+1, bytes+len(arg)+1
		return nil
	})
	switch {
	case err != nil:
		return err
	case args > maxCount:
		return tooMany("Parameters make %d arguments, and there may be %d: pass lists, or write them to a file "+
			"and pass its path", args, maxCount)
	case bytes > maxArguments:
		return tooMany("Parameters make %d bytes of arguments, and there may be %d together: write them to a file "+
			"and pass its path", bytes, maxArguments)
	}
	return nil
}

func tooMany(say string, are, most int) error {
	return fault.Newf(fault.Invalid, say, are, most).With("field", "parameters").With("limit", most)
}

// Flags turns a run's parameters into a command's arguments, in the caller's order:
//
//	string, number   --key value     numbers exactly as they were sent
//	true             --key
//	false, null      nothing
//	array            --key a,b,c     strings as they are, the rest as JSON; an empty one is an empty value
//	object           --key JSON
//
// A value that begins with '-' is passed as --key=value, so that no command takes it for a flag of its own. A key that
// could not be told from a value or another key is an Invalid fault with the field's path. So is a NUL, which no
// argument can hold. How much a worker's system holds, it says itself: Takes is for those who ask before.
func Flags(params json.RawMessage) ([]string, error) {
	var args []string
	err := flags(params, func(_, arg string) error { args = append(args, arg); return nil })
	if err != nil {
		return nil, err
	}
	return args, nil
}

// flags calls give with each argument and its key, until give fails.
func flags(params json.RawMessage, give func(key, arg string) error) (err error) {
	if p := bytes.TrimSpace(params); len(p) == 0 || string(p) == "null" {
		return nil
	}
	scan := strictjson.Scan(params, func(key, value []byte) {
		if err == nil {
			err = flag(string(key), value, give)
		}
	})
	if scan != nil {
		return fault.New(fault.Invalid, "", "parameters must be a JSON object").With("field", "parameters")
	}
	return err
}

// flag calls give with the arguments for one parameter.
func flag(key string, raw json.RawMessage, give func(key, arg string) error) error {
	if why := invalidKey(key); why != "" {
		return refuse(key, why)
	}
	value, given, err := text(raw)
	if err != nil {
		return refuse(key, err.Error())
	}
	name := "--" + key
	switch {
	case !given:
		return nil
	case strings.ContainsRune(value, 0):
		return refuse(key, "its value contains a NUL, which no command line can hold: take it out")
	case string(raw) == "true":
		return give(key, name)
	case strings.HasPrefix(value, "-"):
		return give(key, name+"="+value)
	}
	if err := give(key, name); err != nil {
		return err
	}
	return give(key, value)
}

func refuse(key, why string) *fault.Fault {
	return fault.Newf(fault.Invalid, "parameter %.80q cannot be passed to a command: %s", key, why).With("field",
		fmt.Sprintf("parameters.%.80s", key))
}

// invalidKey returns why a key cannot be a flag's name.
func invalidKey(key string) string {
	switch {
	case key == "":
		return "the key is empty: give it a name"
	case key[0] == '-':
		return "the key begins with '-': leave that out, it is put before every key"
	case strings.Contains(key, "="):
		return "the key contains '=': use another key"
	case strings.ContainsFunc(key, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }):
		return "the key contains white space or a control character: use another key"
	}
	return ""
}

// text returns a value as an argument; given is false for values that are not passed.
func text(raw json.RawMessage) (s string, given bool, err error) {
	switch raw[0] {
	case '"':
		s, err = stringValue(raw)
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

// stringValue returns the text of a JSON string. Most need no unescaping, and every run needs this.
func stringValue(raw json.RawMessage) (s string, err error) {
	if inside := raw[1 : len(raw)-1]; bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return string(inside), nil
	}
	if strictjson.HalfSurrogate(raw) {
		return "", errors.New("it has half of a surrogate pair, which is no character: send the whole character")
	}
	err = json.Unmarshal(raw, &s)
	return s, err
}

// list joins an array's items with commas.
func list(raw json.RawMessage) (string, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return "", err
	}
	words := make([]string, len(items))
	for i, item := range items {
		var err error
		if item[0] == '"' {
			words[i], err = stringValue(item)
		} else {
			words[i], err = compact(item)
		}
		if err != nil {
			return "", fmt.Errorf("item %d: %w", i, err)
		}
	}
	return strings.Join(words, ","), nil
}

// compact is JSON on one line, with every digit and the order of keys.
func compact(raw json.RawMessage) (string, error) {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.String(), err
}
