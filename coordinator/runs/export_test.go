package runs

import (
	"ao/shared/run"
	"ao/shared/strictjson"
)

// Fresh is a run that was accepted by this very request.
func Fresh(id string) Accepted { return Accepted{RunID: id, fresh: true} }

// RequestOf returns the body of POST /runs for a retry of a run.
func RequestOf(s run.Spec) ([]byte, error) {
	members, err := requestMembers(s, InNewSession, "")
	return strictjson.Object(members), err
}
