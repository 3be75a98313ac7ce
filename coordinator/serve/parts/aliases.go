package parts

import (
	"ao/coordinator/runs"
	"ao/coordinator/sessions"
)

// Names for what a Coordinator embeds.
type (
	runsService     = runs.Service
	sessionsService = sessions.Service
)
