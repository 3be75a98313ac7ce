package runnerapi

import (
	"strings"
	"testing"

	"ao/shared/fault"
)

func TestIsID(t *testing.T) {
	for id, want := range map[string]bool{
		(Identity{}).ID(): true, "rnr_1": true, "rnr_" + strings.Repeat("a", 64): true,
		"": false, "rnr_": false, "_owners": false, "rnr_a.b": false, "rnr_*": false, "rnr_a_b": false,
		"rnr_a b": false, "Rnr_1": false, "rnr_" + strings.Repeat("a", 65): false, "rnr_ä": false,
	} {
		if err := CheckID(id); IsID(id) != want || (err == nil) != want {
			t.Errorf("%q: %v, %v", id, IsID(id), err)
		}
	}
}

// A registration's own claim of its proof counts for nothing, and a process without a secret is known by its instance.
func TestProof(t *testing.T) {
	secret := NewSecret()
	announced := Registration{Runner: Runner{Instance: "one", SecretHash: hashSecret("another")}, Secret: secret}
	r, err := announced.HashSecret()
	if err != nil || !r.IsProcess("one", secret) || r.IsProcess("one", "another") || r.IsProcess("one", "") ||
		r.IsProcess("two", secret) {
		t.Errorf("%+v, %v", r, err)
	}
	if r.IsReplyOf(CommandReply{Instance: "one"}) || !r.IsReplyOf(CommandReply{Instance: "one", Secret: secret}) {
		t.Error("replies are not distinguished")
	}
	announced.Secret = ""
	if r, err := announced.HashSecret(); err != nil || !r.IsProcess("one", "") || r.IsProcess("two", "") ||
		!r.IsReplyOf(CommandReply{Instance: "two"}) {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"short", strings.Repeat("x", 129)} {
		announced.Secret = bad
		if _, err := announced.HashSecret(); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
