package schema

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// RFC 3492's parameters.
const (
	punyBase    = 36
	punyLow     = 1
	punyHigh    = 26
	punySkew    = 38
	punyDamp    = 700
	punyBias    = 72
	punyInitial = 128
	punyDigits  = "abcdefghijklmnopqrstuvwxyz0123456789"
)

func fromPunycode(s string) ([]rune, bool) {
	var out []rune
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		out, s = []rune(s[:i]), s[i+1:]
	}
	if s == "" {
		return nil, false
	}
	n, i, bias := punyInitial, 0, punyBias
	for s != "" {
		before, weight := i, 1
		for k := punyBase; ; k += punyBase {
			if s == "" {
				return nil, false
			}
			d := strings.IndexByte(punyDigits, s[0])
			s = s[1:]
			if d < 0 || d > (math.MaxInt32-i)/weight {
				return nil, false
			}
			i += d * weight
			t := threshold(k, bias)
			if d < t {
				break
			}
			if weight > math.MaxInt32/(punyBase-t) {
				return nil, false
			}
			weight *= punyBase - t
		}
		size := len(out) + 1
		bias = adapted(i-before, size, before == 0)
		n += i / size
		i %= size
		if n > unicode.MaxRune || !utf8.ValidRune(rune(n)) {
			return nil, false
		}
		out = append(out[:i], append([]rune{rune(n)}, out[i:]...)...)
		i++
	}
	return out, true
}

// toPunycode encodes a label of bounded length.
func toPunycode(u []rune) string {
	var b strings.Builder
	for _, r := range u {
		if r < punyInitial {
			b.WriteRune(r)
		}
	}
	basic := b.Len()
	if basic > 0 {
		b.WriteByte('-')
	}
	n, delta, bias := rune(punyInitial), 0, punyBias
	for done := basic; done < len(u); {
		next := rune(math.MaxInt32)
		for _, r := range u {
			if r >= n {
				next = min(next, r)
			}
		}
		delta += int(next-n) * (done + 1)
		n = next
		for _, r := range u {
			if r < n {
				delta++
			}
			if r != n {
				continue
			}
			q := delta
			for k := punyBase; ; k += punyBase {
				t := threshold(k, bias)
				if q < t {
					break
				}
				b.WriteByte(punyDigits[t+(q-t)%(punyBase-t)])
				q = (q - t) / (punyBase - t)
			}
			b.WriteByte(punyDigits[q])
			bias = adapted(delta, done+1, done == basic)
			delta = 0
			done++
		}
		delta++
		n++
	}
	return b.String()
}

func threshold(k, bias int) int { return min(max(k-bias, punyLow), punyHigh) }

func adapted(delta, size int, first bool) int {
	if first {
		delta /= punyDamp
	} else {
		delta /= 2
	}
	delta += delta / size
	k := 0
	for ; delta > (punyBase-punyLow)*punyHigh/2; k += punyBase {
		delta /= punyBase - punyLow
	}
	return k + (punyBase-punyLow+1)*delta/(delta+punySkew)
}
