package projection

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"ao/shared/run"
)

// An attempt's key says who may end it; a log is read by others.
func TestNoKeyInTheLog(t *testing.T) {
	var log bytes.Buffer
	j := joined(nil, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	a := newActor(t, run.NewID(), run.NewSessionID(), "x")
	for i, e := range []entry{a.queued(1), {Subject: a.claimed(1).Subject, Body: []byte(`{`)},
		{Subject: a.ended(1, run.Failed, 0).Subject, Body: []byte(`{`)},
		{Subject: a.claimed(1).Subject + ".more", Body: []byte(`{}`)}} {
		j.apply(message(i+1, e))
	}
	if n := strings.Count(log.String(), "unreadable"); n != 3 {
		t.Errorf("%d records are logged:\n%s", n, &log)
	}
	if strings.Contains(log.String(), a.key(1)) {
		t.Errorf("the key is logged:\n%s", &log)
	}
}
