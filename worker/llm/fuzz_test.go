package llm

import "testing"

// FuzzHistory: a kept conversation of any origin is refused, or can be kept again.
func FuzzHistory(f *testing.F) {
	for _, seed := range []string{`{"v":1,"turns":[]}`,
		`{"v":1,"turns":[{"run":"run_1","messages":[{"role":"user","text":"x"}]}]}`, `{"v":9}`, `{}`, `null`, `[`,
		`{"v":1,"turns":[{}]}`} {
		f.Add([]byte(seed), 1000)
	}
	f.Fuzz(func(t *testing.T, raw []byte, most int) {
		h, err := load(raw)
		if err != nil {
			return
		}
		h.startTurn("run_2", 1, "again")
		text, _, err := h.encode(most)
		if err != nil {
			return
		}
		if _, err := load(text); err != nil {
			t.Errorf("%s\nis kept as %s\nand refused: %v", raw, text, err)
		}
	})
}
