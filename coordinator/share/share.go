// Package share divides a limited number of places fairly: a caller may have as many as are still free. One caller gets
// at most half, two a third each, and there is always room for another. It is used for callers' queues, for profiles'
// queues of runner-owned agents, and for places of runners.
package share

// Has reports whether a caller that has mine of all taken places may have one more. room is the number of places.
func Has(room, all, mine int) bool { return mine < room-all }
