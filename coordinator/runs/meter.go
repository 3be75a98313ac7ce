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
			"until the waiting caller's answer is ready.", metric.Fast).With(),
		input: r.Histogram("ao_run_input_bytes", "Sizes of accepted runs: parameters with agent and output schema.",
			metric.Bytes).With(),
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
