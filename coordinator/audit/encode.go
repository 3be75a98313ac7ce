package audit

import "ao/shared/strictjson"

// append writes an entry behind b, as encoding/json would: one per run is written.
func (e *Entry) append(b []byte) []byte {
	o := strictjson.Build(b)
	o.Time("time", e.Time)
	o.Some("request", e.Request)
	o.Some("door", e.EntryPoint)
	if e.Actor != nil {
		e.Actor.write(&o)
	}
	o.Some("from", e.From)
	o.Text("action", e.Action)
	o.Some("route", e.Route)
	o.Some("run_id", e.Run)
	o.Some("session_id", e.Session)
	o.Some("agent_name", e.Agent)
	o.Some("schema_name", e.Schema)
	o.Some("runner_id", e.Runner)
	o.True("tree", e.Tree)
	o.Count("runs", uint64(e.Runs))
	o.Count("status", uint64(e.Status))
	o.Some("error", e.Error)
	o.Count("count", e.Count)
	raw, err := o.End()
	if err != nil { // no clock shows such a year
		return append(b, "null"...)
	}
	return raw
}

func (a *Actor) write(o *strictjson.Builder) {
	o.Open("actor")
	o.Text("kind", a.Kind)
	o.Some("name", a.Name)
	o.Some("scope", a.Scope)
	o.Some("session_id", a.Session)
	o.Some("run_id", a.Run)
	o.Some("runner_id", a.Runner)
	o.Some("credential", a.Credential)
	if c := a.Claimed; c != nil {
		o.Open("claimed")
		o.Some("runner_id", c.Runner)
		o.Some("hostname", c.Host)
		o.Close()
	}
	o.Close()
}
