package runs

// Fresh is a run that was accepted by this very request.
func Fresh(id string) Accepted { return Accepted{RunID: id, fresh: true} }
