package strictjson

import "unicode/utf8"

// minKept is the length up to which Truncate keeps strings in any case, so that names and words stay readable.
const minKept = 64

// Truncate shortens the strings of valid JSON until they have about most bytes together. The first strings
// stay. Names, numbers, short strings and the order stay as they are.
func Truncate(raw []byte, most int) []byte {
	out := make([]byte, 0, min(len(raw), most+1024))
	for i := 0; i < len(raw); {
		if raw[i] != '"' {
			out = append(out, raw[i])
			i++
			continue
		}
		end := stringEnd(raw, i)
		if end < 0 {
			return append(out, raw[i:]...)
		}
		inside := raw[i+1 : end-1]
		switch next := space(raw, end); {
		case next < len(raw) && raw[next] == ':': // a name
			out = append(out, raw[i:end]...)
		case len(inside) <= max(most, minKept):
			out = append(out, raw[i:end]...)
			most = max(0, most-len(inside))
		default:
			out = append(append(append(out, '"'), prefix(inside, max(most, minKept))...), '"')
			most = 0
		}
		i = end
	}
	return out
}

// prefix returns the start of a string's content, at most so many bytes, without partial characters or escapes.
func prefix(inside []byte, most int) []byte {
	at := 0
	for at < len(inside) {
		n := 1
		switch c := inside[at]; {
		case c == '\\' && at+1 < len(inside) && inside[at+1] == 'u':
			n = 6
			// perhaps a surrogate pair
			if at+12 <= len(inside) && inside[at+6] == '\\' && inside[at+7] == 'u' {
				n = 12
			}
		case c == '\\':
			n = 2
		case c >= utf8.RuneSelf:
			_, n = utf8.DecodeRune(inside[at:])
		}
		if at+n > most {
			break
		}
		at += n
	}
	return inside[:min(at, len(inside))]
}
