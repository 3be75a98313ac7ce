package projection

import "time"

// CallbackBacklog counts pending callbacks and webhooks.
type CallbackBacklog struct {
	Parents  int       // sessions with pending children that can be called back, now or after their open runs
	Children int       // their ended children
	Oldest   time.Time // end of the one that waits longest, by its own clock; zero: none waits

	Webhooks int       // webhooks with tries left
	Due      time.Time // when the first of them is or was due; zero: there is none
	Dead     int       // webhooks without tries left
}
