package coordinator

import "ao/coordinator/audit"

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
