package subject

// QueuedOf is every queued record of a run, in any task queue and of any attempt.
func QueuedOf(partition, run string) string {
	return "ao.runs." + partition + ".queued.*.*.*." + run + ".*"
}

// RecordsOf is what workers wrote about a run, and the steps of its webhook.
func RecordsOf(run string) string { return "ao.runs.*.*." + run + ".>" }

// NotifiedOf is every step of a run's webhook.
func NotifiedOf(partition, run string) string {
	return "ao.runs." + partition + ".notified." + run + ".*"
}
