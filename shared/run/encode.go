package run

import "ao/shared/strictjson"

// Parameters and agent are most of a record's bytes, and never change. So they are copied as they are when a
// record is written, and skipped when it is read.

// Encode writes the record.
func (q Queued) Encode() ([]byte, error) {
	o := strictjson.Build(make([]byte, 0, q.size()))
	o.Int("v", q.V)
	o.Int("attempt", q.Attempt)
	o.Text("key", q.Key)
	o.OptUint("record_version", uint64(max(q.RecordVersion, 0)))
	o.OptTrue("returnable", q.Returnable)
	q.Spec.write(&o)
	return o.End()
}

// Encode writes the record.
func (a Accepted) Encode() ([]byte, error) {
	o := strictjson.Build(make([]byte, 0, a.size()))
	o.Int("v", a.V)
	a.Spec.write(&o)
	return o.End()
}

// size returns the approximate size of its record, in bytes.
func (s *Spec) size() int {
	if s.Input == nil {
		return 800
	}
	return 800 + len(s.Parameters) + len(s.Blueprint)
}

func (s *Spec) write(o *strictjson.Builder) {
	o.Text("run_id", s.ID)
	o.Text("type", s.Type)
	o.Text("session_id", s.SessionID)
	o.Text("agent_name", s.Agent)
	o.Text("agent_type", s.AgentType)
	o.Text("mode", s.Mode)
	o.OptText("parent_session_id", s.Parent)
	o.OptUint("depth", uint64(s.Depth))
	o.OptText("project_dir", s.ProjectDir)
	s.Demands.write(o)
	o.OptText("owner", s.Owner)
	o.Int("timeout_seconds", s.Timeout)
	o.Text("timeout_by", s.TimeoutBy)
	o.OptUint("max_attempts", uint64(s.Attempts))
	o.OptText("callback_url", s.CallbackURL)
	o.OptText("executor_session_id", s.ExecutorSessionID)
	o.OptText("after_run_id", s.PreviousRunID)
	o.OptTrue("contract", s.HasOutputSchema)
	o.OptText("caller", s.Caller)
	o.OptTrue("callback_turn", s.IsCallbackTurn)
	o.Time("created_at", s.CreatedAt)
	if s.Trace != nil {
		o.Open("trace")
		o.Text("traceparent", s.Trace.Parent)
		o.OptText("tracestate", s.Trace.State)
		o.Close()
	}
	o.OptText("retry_of", s.RetryOf)
	o.OptText("request_hash", s.RequestHash)
	if s.Requested != nil {
		o.Value("asked", s.Requested)
	}
	if s.Body != nil {
		o.Value("payload", s.Body)
	}
	o.OptText("agent_hash", s.AgentHash)
	if s.Input == nil {
		return
	}
	o.OptRaw("parameters", s.Parameters)
	o.OptRaw("agent_blueprint", s.Blueprint)
	if s.Output != nil {
		o.Value("output", s.Output)
	}
}

func (d *Demands) write(o *strictjson.Builder) {
	o.Open("demands")
	o.OptText("hostname", d.Hostname)
	o.OptText("project_dir", d.ProjectDir)
	o.OptText("executor_profile", d.ExecutorProfile)
	o.OptText("executor_type", d.ExecutorType)
	o.OptTexts("tags", d.Tags)
	o.Close()
}

// Encode writes the record.
func (c Claim) Encode() ([]byte, error) {
	o := strictjson.Build(make([]byte, 0, 320))
	o.Int("v", c.V)
	o.Text("session_id", c.SessionID)
	o.OptText("runner_id", c.RunnerID)
	o.OptText("instance", c.Instance)
	o.Text("nonce", c.Nonce)
	o.Int("attempt", c.Attempt)
	o.Time("at", c.At)
	o.OptTrue("proves", c.SignsEvents)
	o.OptUint("queued", c.Queued)
	if len(c.Next) > 0 {
		o.Raw("next", c.Next)
	}
	return o.End()
}

// Encode writes the record; Next is copied as it is.
func (b SessionCreated) Encode() ([]byte, error) {
	o := strictjson.Build(make([]byte, 0, 160+len(b.Next)))
	o.Int("v", b.V)
	o.Text("run_id", b.RunID)
	o.Time("at", b.At)
	o.OptRaw("next", b.Next)
	return o.End()
}

// Encode writes the record; Next is copied as it is.
func (c Callback) Encode() ([]byte, error) {
	o := strictjson.Build(make([]byte, 0, 208+40*len(c.Children)+len(c.Next)))
	o.Int("v", c.V)
	o.Text("run_id", c.RunID)
	o.OptText("turn_id", c.TurnID)
	o.Value("children", c.Children)
	o.Time("at", c.At)
	o.OptRaw("next", c.Next)
	return o.End()
}

// Encode writes the record. The error means that its result is not JSON.
func (e Ended) Encode() ([]byte, error) {
	o := strictjson.Build(make([]byte, 0, 640))
	o.Int("v", e.V)
	o.Text("session_id", e.SessionID)
	o.OptText("runner_id", e.RunnerID)
	o.Text("nonce", e.Nonce)
	o.Int("attempt", e.Attempt)
	o.Text("status", string(e.Status))
	if e.Error != nil {
		o.Value("error", e.Error)
	}
	if e.Result != nil {
		o.Open("result")
		e.Result.Write(&o)
		o.Close()
	}
	if e.Body != nil {
		o.Value("payload", e.Body)
	}
	o.OptUint("events", e.Events)
	o.OptTrue("returned", e.Returned)
	o.OptText("checked", e.Checked)
	o.OptTime("started_at", e.StartedAt)
	o.Time("at", e.At)
	return o.End()
}

// Write writes the result's members.
func (r *Result) Write(o *strictjson.Builder) {
	o.Text("result_type", r.Type)
	o.TextOrNull("result_text", r.Text)
	o.Raw("result_data", r.Data)
	if r.ExitCode != nil {
		o.Int("exit_code", *r.ExitCode)
	}
	if len(r.SchemaValidation) > 0 {
		o.Raw("schema_validation", r.SchemaValidation)
	}
	if r.RawOutput != nil {
		o.Text("raw_output", *r.RawOutput)
	}
	o.OptText("note", r.Note)
}

// Write writes the run's members.
func (r *Run) Write(o *strictjson.Builder) {
	o.Text("run_id", r.ID)
	o.Text("type", r.Type)
	o.Text("session_id", r.SessionID)
	o.Text("agent_name", r.Agent)
	o.OptText("agent_hash", r.AgentHash)
	o.StoredRaw("parameters", r.Parameters)
	o.OptTrue("parameters_expired", r.ParametersExpired)
	o.Text("status", string(r.Status))
	o.Text("mode", r.Mode)
	o.OptText("parent_session_id", r.Parent)
	o.OptText("retry_of", r.RetryOf)
	r.Demands.write(o)
	o.OptText("runner_id", r.RunnerID)
	o.Int("attempt", r.Attempt)
	if r.Error == nil {
		o.Null("error")
	} else {
		o.Value("error", r.Error)
	}
	o.Time("created_at", r.CreatedAt)
	o.OptTime("claimed_at", r.ClaimedAt)
	o.OptTime("started_at", r.StartedAt)
	o.OptTime("completed_at", r.EndedAt)
	o.OptTime("timeout_at", r.TimeoutAt)
	o.OptTime("next_attempt_at", r.NextAt)
	o.OptText("waiting_for", r.WaitingFor)
	o.OptText("stopped_with", r.StoppedWith)
	o.OptTrue("parameters_omitted", r.ParametersOmitted)
	o.OptUint("max_attempts", uint64(r.MaxAttempts))
	o.OptUint("depth", uint64(r.Depth))
	o.OptUint("children", uint64(r.Children))
	o.OptTrue("parent_gone", r.ParentDeleted)
	if r.Callback != nil {
		o.Value("callback", r.Callback)
	}
	o.OptText("callback_url", r.CallbackURL)
	if r.HTTPCallback != nil {
		o.Value("http_callback", r.HTTPCallback)
	}
}
