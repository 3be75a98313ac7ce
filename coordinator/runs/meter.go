package runs

import (
	"ao/shared/metric"
	"ao/shared/run"
)

// runMeter has the histograms of runs. Its zero value measures nothing.
type runMeter struct{ answer, input *metric.Histogram }

func newRunMeter(r *metric.Registry) runMeter {
	return runMeter{
		answer: r.Histogram("ao_run_answer_seconds", "From the end of a run of mode sync, by its runner's clock, "+
			"until its result was there for who waits.", metric.Fast).With(),
		input: r.Histogram("ao_run_input_bytes", "Parameters with agent and output schema, of runs that were "+
			"accepted.", metric.Bytes).With(),
	}
}

// observeAnswer measures from the end of a run until a waiting caller got its result.
func (m runMeter) observeAnswer(o Outcome) {
	if o.EndedAt != nil {
		m.answer.ObserveSince(*o.EndedAt)
	}
}

// observeInput measures the input of an accepted run.
func (m runMeter) observeInput(in *run.Input) { m.input.Observe(float64(in.Size())) }
