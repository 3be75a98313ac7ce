package projection

import "time"

// Debts are the callbacks that are owed at one moment.
type CallbackBacklog struct {
	Parents  int       // sessions that can be told of children, now or when what they have under way has ended
	Children int       // ended runs that they are to be told of
	Oldest   time.Time // the end of the one that waits for longest, by its own word; zero: none does

	Webhooks int       // HTTP callbacks with tries left
	Due      time.Time // when the first of them is, or was, to be tried; zero: there is none
	Dead     int       // HTTP callbacks that were given up
}
