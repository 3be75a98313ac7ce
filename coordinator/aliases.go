package coordinator

import (
	"ao/coordinator/runs"
	"ao/coordinator/sessions"
)

// What the walls know by this package's name.
type (
	Accepted       = runs.Accepted
	Outcome        = runs.Outcome
	Late           = runs.Late
	Validation     = runs.Validation
	StoppedRun     = runs.StoppedRun
	Below          = runs.Below
	StoppedSession = sessions.StoppedSession

	runsService     = runs.Service
	sessionsService = sessions.Service
)

// MaxKey is the longest idempotency key, in bytes.
const MaxKey = runs.MaxKey
