package state

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

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
		over := map[Ident]bool{}
		seq := uint64(0)
		for line := range strings.Lines(text) {
			seq++
			name, body, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			m := Record{Subject: name, Body: []byte(body), Seq: seq, Time: time.Unix(1_767_225_600+int64(seq), 0)}
			_, err1 := once.Apply(m)
			twice.Apply(m)
			if ch, err2 := twice.Apply(m); err2 != nil || ch.Applied {
				t.Fatalf("a record that was applied moved something: %+v, %v after %v", ch, err2, err1)
			}
			for id, r := range once.runs {
				if over[id] && !r.Status().Final() {
					t.Fatalf("record %d took back the end of a run", seq)
				}
				over[id] = over[id] || r.Status().Final()
			}
		}
		if once.stats.Applied != twice.stats.Applied || len(once.runs) != len(twice.runs) ||
			len(once.sessions) != len(twice.sessions) {
			t.Errorf("once: %+v, twice: %+v", once.stats, twice.stats)
		}
	})
}
