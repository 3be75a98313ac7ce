package browser

import (
	"strings"
	"testing"
)

// TestExport: matching runs are exported as the coordinator writes them, without formulas and with all digits.
func TestExport(t *testing.T) {
	s := sharedStack(t)
	s.agent(t, "exported")
	id, _ := s.finished(t, `{"agent_name":"exported","parameters":{"prompt":"@fail broken =1+1"}}`)
	s.agent(t, "exportedelse")
	s.finished(t, `{"agent_name":"exportedelse","prompt":"@say hi"}`)
	p := open(t, s, "/ui/runs?agent_name=exported")
	p.has("broken")
	eval[bool](p, `(() => { const make = URL.createObjectURL; window.saved = []; URL.createObjectURL = (b) => `+
		`(b.text().then((t) => saved.push(t)), make.call(URL, b)); return true; })()`)
	p.menu("Export matching runs", "As CSV")
	p.until(`saved.length === 1`)
	lines := strings.Split(eval[string](p, `saved[0]`), "\r\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "run_id,session_id,") || !strings.HasPrefix(lines[1], id+",") ||
		!strings.Contains(lines[1], `,broken,"'=1+1",`) {
		t.Errorf("%q", lines)
	}
	p.menu("Export matching runs", "As JSON, one run per line")
	p.until(`saved.length === 2`)
	if text := eval[string](p, `saved[1]`); !strings.HasPrefix(text, `{"run_id":"`+id+`"`) ||
		strings.Count(text, "\n") != 1 || strings.Contains(text, "exportedelse") {
		t.Errorf("%s", text)
	}
}
