package query

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"ao/coordinator/projection"
	"ao/shared/run"
)

// An attempt's key says who may end it; a log is read by others.
func TestNoKeyInTheLog(t *testing.T) {
	var log bytes.Buffer
	j := joined(nil, projection.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	a := newActor(t, run.NewID(), run.NewSessionID(), "x")
	for i, e := range []entry{a.Queued(1), {Subject: a.Claimed(1).Subject, Body: []byte(`{`)},
		{Subject: a.Ended(1, run.Failed, 0).Subject, Body: []byte(`{`)},
		{Subject: a.Claimed(1).Subject + ".more", Body: []byte(`{}`)}} {
		j.Apply(message(i+1, e))
	}
	if n := strings.Count(log.String(), "unreadable"); n != 3 {
		t.Errorf("%d records are logged:\n%s", n, &log)
	}
	if strings.Contains(log.String(), a.Key(1)) {
		t.Errorf("the key is logged:\n%s", &log)
	}
}
