package journal

import "time"

// Debts are the callbacks that are owed at one moment.
type Debts struct {
	Parents  int       // sessions that can be told of children, now or when what they have under way has ended
	Children int       // ended runs that they are to be told of
	Oldest   time.Time // the end of the one that waits for longest, by its own word; zero: none does

	Webhooks int       // HTTP callbacks with tries left
	Due      time.Time // when the first of them is, or was, to be tried; zero: there is none
	Dead     int       // HTTP callbacks that were given up
}

// Debts counts them. It costs what there are of parents with children to be told of, and of receivers.
func (j *Journal) Debts() (d Debts) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	for p := range j.fold.owing {
		if len(p.owed) == 0 || !p.hears() {
			continue
		}
		d.Parents++
		d.Children += len(p.owed)
		if at := moment(p.owed[0].ended); d.Oldest.IsZero() || at.Before(d.Oldest) {
			d.Oldest = at
		}
	}
	for _, to := range j.fold.hosts.first {
		d.Webhooks += len(to.owed)
	}
	if len(j.fold.hosts.first) > 0 {
		d.Due = j.fold.hosts.first[0].when()
	}
	d.Dead = len(j.fold.hooks) - d.Webhooks
	return d
}

// Behind is how many records of the stream, whose last one has this sequence, the fold has not read, and how old the newest is that it
// has; nothing where it has read all.
func (j *Journal) Behind(last uint64) (records uint64, age time.Duration) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if seq := max(j.fold.seq, j.empty); last > seq {
		records = last - seq
		if !j.at.IsZero() {
			age = max(time.Since(j.at), 0)
		}
	}
	return records, age
}

// Kept are the runs and sessions that the index has, ended ones too.
func (j *Journal) Kept() (runs, sessions int) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return len(j.fold.runs), len(j.fold.sessions)
}
