package strictjson

import "unicode/utf8"

// always is how long a string is that Cut leaves as it is when all else is used up: names and words of a document stay
// readable.
const always = 64

// Cut shortens the strings of valid JSON until they have about most bytes together: it keeps the first ones, and cuts
// where they end. Names, numbers and their order stay as they are, short strings too.
func Cut(raw []byte, most int) []byte {
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
		case len(inside) <= max(most, always):
			out = append(out, raw[i:end]...)
			most = max(0, most-len(inside))
		default:
			out = append(append(append(out, '"'), begin(inside, max(most, always))...), '"')
			most = 0
		}
		i = end
	}
	return out
}

// begin is the beginning of what stands inside a string, so many bytes at most, and no half character or escape.
func begin(inside []byte, most int) []byte {
	at := 0
	for at < len(inside) {
		n := 1
		switch c := inside[at]; {
		case c == '\\' && at+1 < len(inside) && inside[at+1] == 'u':
			n = 6
			// perhaps two that are one character
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
