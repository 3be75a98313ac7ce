package coordinator

import (
	"ao/coordinator/audit"
	"ao/nats/subject"
	"ao/shared/fault"
	"ao/shared/fleet"
)

// record writes the line of what a worker asked over NATS. Who it is, is what it says; NATS let it in.
func (c *Coordinator) record(action, runner, host string, err error) {
	if c.Audit == nil {
		return
	}
	runner, host = runner[:min(len(runner), 80)], host[:min(len(host), 255)]
	e := audit.Entry{Door: audit.Fleet, Actor: &audit.Actor{Kind: audit.Runner, Name: host, Runner: runner}, Action: action, Targets: audit.Targets{Runner: runner}}
	e.Status, e.Error = audit.Outcome(200, err)
	c.Audit.Note(e)
}

// recordRefusal writes the line of a worker that asked for what is not its own; which worker it is, nobody knows then.
func (c *Coordinator) recordRefusal(op string, err error) {
	if kind := fault.KindOf(err); err == nil || kind != fault.Forbidden && kind != fault.Unauthorized {
		return
	}
	action := "request"
	if op == fleet.OpGetPart || op == subject.OpRecord {
		action = audit.Read
	}
	c.record(action, "", "", err)
}
