package subject

// QueuedOf is every queued record of a run, whatever its lane and attempt.
func QueuedOf(partition, run string) string {
	return "ao.runs." + partition + ".queued.*.*.*." + run + ".*"
}

// NotifiedOf is every step of a run's HTTP callback.
func NotifiedOf(partition, run string) string {
	return "ao.runs." + partition + ".notified." + run + ".*"
}
