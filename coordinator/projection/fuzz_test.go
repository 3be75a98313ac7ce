package projection

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

// FuzzPosition: Last-Event-ID and after. What is read is written as the same place.
func FuzzPosition(f *testing.F) {
	for _, seed := range []string{"1-2", "1-2.3", "", "-", "1-", "99999999999999999999-1", "1-2.17", "+1-2", "01-2",
		"1-2.", "1--2", "1-2.0.3", "1-2.3.4", "1-2.0.256", "1-2.0.0.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePosition(text)
		if err != nil || text == "" {
			return
		}
		if again, err := parsePosition(p.String()); err != nil || again != p {
			t.Errorf("%q is %+v, written %q, read as %+v, %v", text, p, p, again, err)
		}
	})
}

// FuzzCursor: a cursor that is taken is exactly one that a page gave.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{cursorAt(runCursor, 5), cursorAt(sessionCursor, 1<<63), "", "x", "cjE6", "cjE6MDU",
		"cjE6LTE"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []string{runCursor, sessionCursor} {
			if seq, err := cursor(kind, text); err == nil && text != "" && cursorAt(kind, seq) != text {
				t.Errorf("%q is taken for %d, whose cursor is %q", text, seq, cursorAt(kind, seq))
			}
		}
	})
}

// FuzzReducer: records as the stream may hold them, some written by whoever has a worker's credential. The reducer goes
// on, reads the same twice, and has no run whose end is taken back. Each line is a record: its subject, a space, its
// body.
func FuzzReducer(f *testing.F) {
	queued := `{"v":1,"attempt":1,"key":"KEY","run_id":"run_0195a8c0000070008000000000000001","type":"start_session",` +
		`"session_id":"ses_1","agent_name":"a","agent_type":"procedural","mode":"async_poll",` +
		`"created_at":"2026-01-01T00:00:00Z","parameters":{}}`
	const id = "run_0195a8c0000070008000000000000001"
	f.Add(
		"ao.runs.07.queued.procedural.p._." + id + ".1 " + queued + "\nao.runs.07.claimed." + id +
			`.KEY {"v":1,"runner_id":"rnr_1","nonce":"n"}` + "\nao.runs.07.bound." + id +
			`.KEY {"v":1,"executor_session_id":"x"}` +
			"\nao.runs.07.offered." + id + `.KEY {"v":1,"result":{}}` + "\nao.runs.07.ended." + id +
			`.KEY {"v":1,"status":"completed","result":{"result_data":1}}`,
	)
	f.Add(
		"ao.runs.07.accepted.ses_1." + id + " " + queued + "\nao.runs.07.stopping." + id + ` {"v":1}` +
			"\nao.runs.07.deleted.ses_1 {\"v\":1}\nao.runs.07.callback.ses_1." + id + ` {"v":1,"children":["` + id +
			`"]}` +
			"\nao.runs.07.notified." + id + `.1 {"v":1}`,
	)
	f.Add("ao.runs.07.session.ses_1 {}\nao.runs.07.later.x {\"v\":9}\nao.runs x\nao.runs.07.ended." + id + ".KEY [")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 64<<10 {
			return
		}
		key := func(run string, attempt int) string {
			if attempt == 1 {
				return "KEY"
			}
			return "KEY" + strconv.Itoa(attempt)
		}
		once, twice := newReducer(key), newReducer(key)
		over := map[ident]bool{}
		seq := uint64(0)
		for line := range strings.Lines(text) {
			seq++
			name, body, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			m := Record{Subject: name, Body: []byte(body), Seq: seq, Time: time.Unix(1_767_225_600+int64(seq), 0)}
			_, err1 := once.apply(m)
			twice.apply(m)
			if ch, err2 := twice.apply(m); err2 != nil || ch.Applied {
				t.Fatalf("a record that was applied moved something: %+v, %v after %v", ch, err2, err1)
			}
			for id, r := range once.runs {
				if over[id] && !r.shown().Final() {
					t.Fatalf("record %d took back the end of a run", seq)
				}
				over[id] = over[id] || r.shown().Final()
			}
		}
		if once.stats.Applied != twice.stats.Applied || len(once.runs) != len(twice.runs) ||
			len(once.sessions) != len(twice.sessions) {
			t.Errorf("once: %+v, twice: %+v", once.stats, twice.stats)
		}
	})
}
