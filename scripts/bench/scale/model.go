package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"ao/nats/subject"
)

// Costs of the steps in microseconds of CPU time. Their sums per run are what scripts/bench measured for 128 callers in
// the best hour seen. NATS took 103, coordinator 113, worker 49, and the callers their own share.
const (
	natsAppendCost = 22.0 // three of them
	natsDeliver    = 9.0  // to a worker, and of each record to each coordinator that projects it
	coSubmit       = 50.0
	coApply        = 12.0 // three records
	coAnswer       = 27.0
	woClaim        = 22.0
	woEnd          = 27.0
	caller         = 61.0
	hop            = 60.0 // a message between two processes, on one machine or in one network
)

// always is a commit with fsync, measured: 0.4 ms alone, 3.4 ms with 30 messages, 3.8 with 60, 5.1 with 128.
func always(n int) float64 {
	if n == 1 {
		return 400
	}
	return 2850 + 17.4*float64(n)
}

// later is a commit without an immediate fsync.
func later(n int) float64 { return 15 + 3*float64(n) }

// group is a commit of a cluster of three with fsync, written in groups: 12,700 records a second with 64 at once.
func group(n int) float64 { return 700 + 27*float64(n) }

// commits are the commit models by name.
var commits = map[string]func(int) float64{"always": always, "default": later, "cluster": group}

// plan is a deployment and its load.
type plan struct {
	Streams, Coordinators, Workers, Slots int
	Cores                                 int    // of each machine
	One                                   bool   // all on one machine
	Own                                   bool   // each coordinator projects only its own partitions
	Commit                                string // always, default, cluster
	Callers                               int    // that wait for each result; 0: use Rate
	Rate                                  float64
	Sessions                              int     // open sessions
	Skew                                  float64 // Zipf exponent of turns per session, above 1; 0: all alike
	Exec                                  float64 // mean execution, milliseconds
	Seconds                               float64
	Seed                                  uint64
}

// result is the result of a simulation.
type result struct {
	Rate, P50, P99            float64 // runs per second, milliseconds from request to answer
	NATS, Coordinator, Worker float64 // busiest machine of each, 1 is all of its cores
	Projection                float64 // busiest projection
	Disk                      float64 // busiest stream
	Batch                     float64 // records per commit
	Imbalance                 float64 // runs of the busiest stream relative to the mean
	Behind                    int     // started and not answered at the end
}

type system struct {
	*clock
	plan
	nats, coordinators, workers []*cores
	projections                 []*cores // one goroutine per coordinator
	disks                       []*disk
	submit, work                [][]*writer // by process, by stream
	slots                       []int
	waiting                     []func(int) // runs waiting for a slot
	lastWorker                  int
	claimed, done, all          int
	perStream                   []int
	took                        []float64
	from                        float64 // start of the measurement
	session                     func() int
}

// simulate simulates a plan.
func simulate(p plan) result {
	s := &system{clock: &clock{rng: rand.New(rand.NewPCG(p.Seed, 1))}, plan: p}
	machine := func() *cores { return &cores{c: s.clock, free: p.Cores, all: p.Cores} }
	shared := machine()
	some := func(n int) (all []*cores) {
		for range n {
			if p.One {
				all = append(all, shared)
			} else {
				all = append(all, machine())
			}
		}
		return all
	}
	s.nats, s.coordinators, s.workers = some(p.Streams), some(p.Coordinators), some(p.Workers)
	for range p.Coordinators {
		if p.One {
			s.projections = append(s.projections, shared)
			continue
		}
		s.projections = append(s.projections, &cores{c: s.clock, free: 1, all: 1})
	}
	for range p.Streams {
		s.disks = append(s.disks, &disk{c: s.clock, cost: commits[p.Commit]})
	}
	s.submit, s.work = s.writers(p.Coordinators), s.writers(p.Workers)
	s.slots, s.perStream = slices.Repeat([]int{p.Slots}, p.Workers), make([]int, p.Streams)
	s.session = func() int { return s.rng.IntN(p.Sessions) }
	if p.Skew > 1 {
		z := rand.NewZipf(s.rng, p.Skew, 1, uint64(p.Sessions-1))
		s.session = func() int { return int(z.Uint64()) }
	}
	s.from = p.Seconds * 1e6 / 4
	for range p.Callers {
		s.request(true)
	}
	if p.Callers == 0 {
		s.arrive()
	}
	s.run(p.Seconds * 1e6)
	return s.result()
}

func (s *system) writers(n int) (all [][]*writer) {
	for range n {
		var mine []*writer
		for i := range s.Streams {
			mine = append(mine, &writer{nats: s.nats[i], disk: s.disks[i]})
		}
		all = append(all, mine)
	}
	return all
}

// arrive generates an open load with exponential pauses.
func (s *system) arrive() {
	s.after(s.rng.ExpFloat64()/s.Rate*1e6, func() {
		s.request(false)
		s.arrive()
	})
}

// request simulates a run from its request to its answer.
func (s *system) request(again bool) {
	began := s.now
	partition, _ := strconv.Atoi(subject.Partition("ses_" + strconv.Itoa(s.session())))
	stream := partition * s.Streams / 64
	home := s.rng.IntN(s.Coordinators)
	if s.Own {
		home = partition * s.Coordinators / 64
	}
	s.claimed++
	if s.now >= s.from {
		s.perStream[stream]++
	}
	answered := func() {
		s.after(hop, func() {
			s.all++
			if s.now >= s.from {
				s.done++
				s.took = append(s.took, (s.now-began)/1000)
			}
			if again {
				s.coordinators[0].use(caller, func() { s.request(true) })
			}
		})
	}
	s.after(hop, func() {
		s.coordinators[home].use(coSubmit, func() {
			s.submit[home][stream].append(func() {
				s.project(stream, home, nil)
				s.nats[stream].use(natsDeliver, func() { s.after(hop, func() { s.take(stream, home, answered) }) })
			})
		})
	})
}

// take starts a run on a worker with a free slot, or queues it.
func (s *system) take(stream, home int, answered func()) {
	do := func(w int) {
		s.workers[w].use(woClaim, func() {
			s.work[w][stream].append(func() {
				s.project(stream, home, nil)
				s.after(s.rng.ExpFloat64()*s.Exec*1000, func() {
					s.workers[w].use(woEnd, func() {
						s.work[w][stream].append(func() {
							s.release(w)
							s.project(stream, home, answered)
						})
					})
				})
			})
		})
	}
	for range s.Workers {
		s.lastWorker = (s.lastWorker + 1) % s.Workers
		if s.slots[s.lastWorker] > 0 {
			s.slots[s.lastWorker]--
			do(s.lastWorker)
			return
		}
	}
	s.waiting = append(s.waiting, do)
}

func (s *system) release(w int) {
	if q := s.waiting; len(q) > 0 {
		s.waiting = q[1:]
		q[0](w)
		return
	}
	s.slots[w]++
}

// project delivers a record to the coordinators that read it; home answers.
func (s *system) project(stream, home int, answer func()) {
	for i, co := range s.coordinators {
		if s.Own && i != home {
			continue
		}
		s.nats[stream].use(natsDeliver, func() {
			s.after(hop, func() {
				s.projections[i].use(coApply, func() {
					if i == home && answer != nil {
						co.use(coAnswer, answer)
					}
				})
			})
		})
	}
}

func (s *system) result() result {
	measured := s.now - s.from
	busiest := func(all []*cores) (most float64) {
		for _, p := range all {
			most = max(most, p.used/s.now/float64(p.all))
		}
		return most
	}
	r := result{Rate: float64(s.done) / measured * 1e6, NATS: busiest(s.nats), Coordinator: busiest(s.coordinators),
		Worker: busiest(s.workers), Projection: busiest(s.projections), Behind: s.claimed - s.all}
	writes, sum := 0, 0
	for i, d := range s.disks {
		r.Disk = max(r.Disk, d.used/s.now)
		writes += d.writes
		sum += s.perStream[i]
	}
	r.Batch = 3 * float64(s.claimed) / math.Max(1, float64(writes))
	r.Imbalance = float64(slices.Max(s.perStream)) * float64(s.Streams) / math.Max(1, float64(sum))
	slices.Sort(s.took)
	if n := len(s.took); n > 0 {
		r.P50, r.P99 = s.took[n/2], s.took[n*99/100]
	}
	return r
}
