package schema

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// decimal is a number exactly as JSON writes it: ±0.digits × 10^exp, digits without zeros at either end. Zero has no
// digits. In this form numbers are compared without ever being converted; a float64 would take 0.07 for no multiple of
// 0.01.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// decimalOf reads a JSON number literal.
func decimalOf(literal string) decimal {
	var d decimal
	literal, d.negative = strings.CutPrefix(literal, "-")
	mantissa, exponent := literal, ""
	if i := strings.IndexAny(literal, "eE"); i >= 0 {
		mantissa, exponent = literal[:i], literal[i+1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.exp = len(whole)
	if exponent != "" {
		e, _ := strconv.Atoi(exponent) // bounded by the reader
		d.exp += e
	}
	d.digits = whole
	if fraction != "" {
		d.digits = whole + fraction
	}
	trimmed := strings.TrimLeft(d.digits, "0")
	d.exp -= len(d.digits) - len(trimmed)
	d.digits = strings.TrimRight(trimmed, "0")
	if d.digits == "" {
		return decimal{}
	}
	return d
}

// whole reports whether d is an integer; 1.0 and 1e3 are.
func (d decimal) whole() bool { return len(d.digits) <= d.exp || d.digits == "" }

// compare orders two numbers.
func (d decimal) compare(e decimal) int {
	if d.sign() != e.sign() {
		return cmp.Compare(d.sign(), e.sign())
	}
	size := cmp.Or(cmp.Compare(d.exp, e.exp), cmp.Compare(d.digits, e.digits))
	return size * d.sign()
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// multipleOf reports whether d is an integer times unit; unit is not zero.
func (d decimal) multipleOf(unit decimal) bool {
	if d.digits == "" {
		return true
	}
	// Both as integers: d = digits × 10^zeros in units of unit's last digit. Digits never end in 0, so with zeros < 0
	// no factor 10 is left to divide by.
	zeros := (d.exp - len(d.digits)) - (unit.exp - len(unit.digits))
	if zeros < 0 {
		return false
	}
	if n, err := strconv.ParseUint(unit.digits, 10, 32); err == nil {
		rest := uint64(0)
		for i := 0; i < len(d.digits); i++ {
			rest = (rest*10 + uint64(d.digits[i]-'0')) % n
		}
		for ; zeros > 0 && rest != 0; zeros-- {
			rest = rest * 10 % n
		}
		return rest == 0
	}
	a, _ := new(big.Int).SetString(d.digits, 10)
	b, _ := new(big.Int).SetString(unit.digits, 10)
	shift := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(zeros)), b)
	return a.Mod(a.Mul(a, shift), b).Sign() == 0
}

// count is d as a length or number of items, which JSON may write 2, 2.0 or 1e9. ok is false for any other number.
func (d decimal) count() (n int, ok bool) {
	if !d.whole() || d.negative {
		return 0, false
	}
	if d.exp > 9 {
		return math.MaxInt, true // more than any limit of ours lets in
	}
	for i := range d.exp {
		n *= 10
		if i < len(d.digits) {
			n += int(d.digits[i] - '0')
		}
	}
	return n, true
}

func (d decimal) canonical(dst []byte) []byte {
	dst = append(dst, '#')
	if d.negative {
		dst = append(dst, '-')
	}
	dst = append(dst, d.digits...)
	dst = append(dst, 'e')
	return strconv.AppendInt(dst, int64(d.exp), 10)
}
