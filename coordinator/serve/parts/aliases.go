package parts

import (
	"ao/coordinator/runs"
	"ao/coordinator/sessions"
)

// What a Coordinator embeds, by names of their own.
type (
	runsService     = runs.Service
	sessionsService = sessions.Service
)
