package state

import "ao/coordinator/projection/recordtest"

// Records for tests, by short names: most lines of a test are records.
type (
	entry = recordtest.Entry
	actor = recordtest.Actor
)

var (
	newActor  = recordtest.NewActor
	message   = recordtest.Message
	keyOf     = recordtest.KeyOf
	body      = recordtest.Body
	must      = recordtest.Must
	marked    = recordtest.Marked
	signed    = recordtest.Signed
	plain     = recordtest.Plain
	raced     = recordtest.Raced
	inVersion = recordtest.InVersion
	prompted  = recordtest.Prompted
	began     = recordtest.Began
)
