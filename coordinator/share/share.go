// Package share is the one rule for what many share and nobody may use up: a sharer may have as many as are free. One alone so gets half
// of all, two a third each, and there is always room for another. Callers share the queues that their runs' demands make, profiles those
// of their runners' agents, and the places of runners.
package share

// Has tells whether who has mine of all that are taken may have one more.
func Has(room, all, mine int) bool { return mine < room-all }
