package mcpapi

import (
	"net/http"

	"ao/coordinator/audit"
)

// record writes the audit entry of a call that changes something or was refused.
func (a *API) record(t tool, x *call, err error) {
	action := t.action
	status, code := audit.Outcome(http.StatusOK, err)
	if action == "" {
		if status != http.StatusForbidden && status != http.StatusUnauthorized {
			return
		}
		action = audit.Read
	}
	a.note(x, action, status, code)
}

func (a *API) note(x *call, action string, status int, code string) {
	if a.cfg.Audit == nil || x.recorded {
		return
	}
	x.recorded = true
	a.cfg.Audit.Record(audit.Entry{Request: x.id, EntryPoint: audit.MCP, Actor: new(audit.Who(x.who)), From: x.from,
		Action: action, Targets: x.targets, Status: status, Error: code})
}
