package audit

import "ao/shared/strictjson"

// append writes an entry behind b, as encoding/json would: one per run is written.
func (e *Entry) append(b []byte) []byte {
	o := strictjson.Build(b)
	o.Time("time", e.Time)
	o.OptText("request", e.Request)
	o.OptText("door", e.EntryPoint)
	if e.Actor != nil {
		e.Actor.write(&o)
	}
	o.OptText("from", e.From)
	o.Text("action", e.Action)
	o.OptText("route", e.Route)
	o.OptText("run_id", e.Run)
	o.OptText("session_id", e.Session)
	o.OptText("agent_name", e.Agent)
	o.OptText("schema_name", e.Schema)
	o.OptText("runner_id", e.Runner)
	o.OptTrue("tree", e.Tree)
	o.OptUint("runs", uint64(e.Runs))
	o.OptUint("status", uint64(e.Status))
	o.OptText("error", e.Error)
	o.OptUint("count", e.Count)
	raw, err := o.End()
	if err != nil { // no clock shows such a year
		return append(b, "null"...)
	}
	return raw
}

func (a *Actor) write(o *strictjson.Builder) {
	o.Open("actor")
	o.Text("kind", a.Kind)
	o.OptText("name", a.Name)
	o.OptText("scope", a.Scope)
	o.OptText("session_id", a.Session)
	o.OptText("run_id", a.Run)
	o.OptText("runner_id", a.Runner)
	o.OptText("credential", a.Credential)
	if c := a.Claimed; c != nil {
		o.Open("claimed")
		o.OptText("runner_id", c.Runner)
		o.OptText("hostname", c.Host)
		o.Close()
	}
	o.Close()
}
