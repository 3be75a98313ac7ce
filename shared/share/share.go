// Package share divides what all use among its owners: so much at a time (Pool), or so much within a time (Rate).
// Table lists everything that is divided so.
package share

// Rule reports whether an owner that holds mine may take n more of room, of which all is taken.
type Rule func(room, all, mine, n int64) bool

// Free lets an owner have as much as is free. One alone gets half, two get a third each, and there is always room for
// another.
func Free(room, all, mine, n int64) bool { return mine+n <= room-all }

// Half lets an owner have half.
func Half(room, all, mine, n int64) bool { return all+n <= room && mine+n <= room/2 }

// Each lets an owner have most.
func Each(most int64) Rule {
	return func(room, all, mine, n int64) bool { return all+n <= room && mine+n <= most }
}

// KeepQuarter lets an owner have all but the last quarter, which is for owners with few at most.
func KeepQuarter(few int64) Rule {
	return func(room, all, mine, n int64) bool {
		return all+n <= room && (mine+n <= few || all+n <= room-room/4)
	}
}

// Spent reports whether the owner's own share refuses it n more. Then an owner with nothing would get them, or this one
// would not even if it were alone.
func (r Rule) Spent(room, all, mine, n int64) bool {
	return !r(room, all, mine, n) && (!r(room, mine, mine, n) || r(room, all, 0, n))
}
