package follow

import "ao/coordinator/projection/recordtest"

// Records for tests, by short names: most lines of a test are records.
type (
	entry = recordtest.Entry
	actor = recordtest.Actor
)

var (
	newActor = recordtest.NewActor
	message  = recordtest.Message
	keyOf    = recordtest.KeyOf
	marked   = recordtest.Marked
	plain    = recordtest.Plain
)
