package query

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ao/coordinator/projection"
	"ao/coordinator/projection/state"
	"ao/shared/fault"
	"ao/shared/run"
)

// TreePage is a page of a session's tree: parents before their children.
type TreePage struct {
	SessionID string        `json:"session_id"`
	Sessions  []TreeSession `json:"sessions"`
	Next      string        `json:"next_cursor,omitempty"`
}

// TreeSession is a session of a tree with its runs, oldest first.
type TreeSession struct {
	ID        string            `json:"session_id"`
	Parent    string            `json:"parent_session_id,omitempty"`
	Depth     int               `json:"depth"` // below the session whose tree it is
	Status    run.SessionStatus `json:"status,omitempty"`
	Agent     string            `json:"agent_name,omitempty"`
	CreatedAt *time.Time        `json:"created_at,omitempty"`
	// it was deleted, or is no longer kept; what is below it is shown
	Deleted     bool      `json:"deleted,omitempty"`
	Runs        []TreeRun `json:"runs"`
	RunsOmitted int       `json:"runs_omitted,omitempty"` // older ones that are left out
}

// TreeRun is a run of a tree.
type TreeRun struct {
	ID        string             `json:"run_id"`
	Type      string             `json:"type"`
	Status    run.Status         `json:"status"`
	Mode      string             `json:"mode"`
	Attempt   int                `json:"attempt"`
	RunnerID  string             `json:"runner_id,omitempty"`
	Error     *fault.Fault       `json:"error"`
	CreatedAt time.Time          `json:"created_at"`
	ClaimedAt *time.Time         `json:"claimed_at,omitempty"`
	StartedAt *time.Time         `json:"started_at,omitempty"`
	EndedAt   *time.Time         `json:"completed_at,omitempty"`
	Callback  *run.CallbackState `json:"callback,omitempty"`
	Reports   []string           `json:"reports,omitempty"` // of a callback turn: the runs that it reports

	Earlier []TreeAttempt `json:"earlier_attempts,omitempty"` // that runners claimed, oldest first
	// how many attempts were followed by another, or are to be
	Followed int `json:"-"`
}

// TreeAttempt is an attempt that another one followed.
type TreeAttempt struct {
	Attempt   int          `json:"attempt"`
	RunnerID  string       `json:"runner_id,omitempty"`
	ClaimedAt *time.Time   `json:"claimed_at,omitempty"`
	StartedAt *time.Time   `json:"started_at,omitempty"`
	EndedAt   *time.Time   `json:"completed_at,omitempty"`
	Error     *fault.Fault `json:"error"`
}

// The most runs of a page, and of one session.
const (
	treeRuns        = 5000
	treeSessionRuns = 1000
)

// node is a session of a tree.
type node struct {
	id      state.Ident
	up      *node
	session *state.Session // nil: deleted, or no longer kept
	depth   int
	key     uint64 // not before that of its parent
	kept    bool   // it, or something below it, is kept
}

// place is a node's position in the order of its tree.
type place struct {
	key   uint64
	depth int
	id    string
}

func (n *node) place() place { return place{n.key, n.depth, n.id.Text(state.SessionPrefix)} }

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.key, o.key), cmp.Compare(p.depth, o.depth), cmp.Compare(p.id, o.id))
}

const treeCursor = "t1:"

func (p place) cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s%d.%d.%s", treeCursor, p.key, p.depth, p.id))
}

// placeOf reads a cursor of a tree.
func placeOf(c string) (p place, err error) {
	if c == "" {
		return place{depth: -1}, nil
	}
	bad := fault.New(fault.Invalid, "", "cursor is not one of this tree; use next_cursor of the page before").
		With("field", "cursor")
	raw, err := base64.RawURLEncoding.DecodeString(c)
	rest, ok := strings.CutPrefix(string(raw), treeCursor)
	parts := strings.SplitN(rest, ".", 3)
	if len(c) > 200 || err != nil || !ok || len(parts) != 3 {
		return p, bad
	}
	var errs [2]error
	p.key, errs[0] = strconv.ParseUint(parts[0], 10, 64)
	p.depth, errs[1] = strconv.Atoi(parts[1])
	p.id = parts[2]
	if cmp.Or(errs[0], errs[1], run.CheckSessionID(p.id)) != nil || p.cursor() != c {
		return place{}, bad
	}
	return p, nil
}

// Tree returns a page of a session and everything below it, with their runs.
func (x *Lists) Tree(ctx context.Context, id string, limit int, cursor string) (TreePage, error) {
	after, err := placeOf(cursor)
	err = cmp.Or(checkQuery(Query{Limit: limit}, run.Statuses), err, run.CheckSessionID(id))
	if err == nil {
		err = waitLoaded(ctx, x.fresh)
	}
	if err != nil {
		return TreePage{}, err
	}
	nodes := x.nodes(state.IdentOf(state.SessionPrefix, id))
	if !nodes[0].kept { // another coordinator may have started it
		if err := x.fresh.CatchUp(ctx); err != nil {
			return TreePage{}, err
		}
		nodes = x.nodes(nodes[0].id)
		if !nodes[0].kept {
			return TreePage{}, x.reader.noSession(id)
		}
	}
	nodes = slices.DeleteFunc(nodes, func(n *node) bool { return !n.kept || n.place().compare(after) <= 0 })
	slices.SortFunc(nodes, func(a, b *node) int { return a.place().compare(b.place()) })
	t := treePage{TreePage: TreePage{SessionID: id, Sessions: []TreeSession{}}}
	limit = cmp.Or(limit, defaultLimit)
	for i, n := range nodes {
		if len(t.Sessions) == limit || t.runs >= treeRuns {
			t.Next = nodes[i-1].place().cursor()
			break
		}
		x.p.Reading(func(f *state.State) { t.add(x.p, f, n) })
	}
	return t.TreePage, x.explained(ctx, t.failed)
}

// nodes returns a session and everything below it, children after their parents. It holds the lock a stride at a time.
func (x *Lists) nodes(root state.Ident) []*node {
	all := []*node{{id: root}}
	seen := map[state.Ident]bool{root: true}
	var lost map[state.Ident][]state.Ident // deleted sessions, by their parent
	x.p.Reading(func(f *state.State) {
		lost = state.DeletedBelow(f)
	})
	for i := 0; i < len(all); {
		x.p.Reading(func(f *state.State) {
			for looked := 0; i < len(all) && looked < stride; i++ {
				n := all[i]
				n.find(f)
				looked++
				below := lost[n.id]
				for _, child := range f.Trees.Children[n.id] {
					below = append(below, child.Ident)
				}
				for _, id := range below {
					looked++
					if !seen[id] {
						seen[id] = true
						all = append(all, &node{id: id, up: n, depth: n.depth + 1})
					}
				}
			}
		})
	}
	for _, n := range slices.Backward(all) {
		if n.kept && n.up != nil {
			n.up.kept = true
		}
	}
	return all
}

// find looks up a node's session.
func (n *node) find(f *state.State) {
	if n.up != nil {
		n.key = n.up.key
	}
	n.session = state.SessionAt(f, n.id)
	if n.session != nil {
		n.key, n.kept = max(n.key, n.session.First), true
	}
}

// treePage is a page being built.
type treePage struct {
	TreePage
	runs   int
	failed []unexplained
}

// unexplained is a run that did not complete: its record says why.
type unexplained struct {
	state.View
	into **fault.Fault
}

// add adds a node to the page.
func (t *treePage) add(p *projection.Projection, f *state.State, n *node) {
	one := TreeSession{ID: n.id.Text(state.SessionPrefix), Depth: n.depth, Runs: []TreeRun{}}
	if n.up != nil {
		one.Parent = n.up.id.Text(state.SessionPrefix)
	}
	if s := state.SessionAt(f, n.id); s == nil {
		one.Deleted = true
	} else {
		one.Status, one.Agent, one.CreatedAt, one.Parent = p.StatusOf(s), s.Agent, new(state.Moment(s.CreatedAt())),
			s.Parent
		one.RunsOmitted = max(0, s.Runs()-treeSessionRuns)
		t.addRuns(f, s, &one)
	}
	t.Sessions = append(t.Sessions, one)
}

// addRuns adds a session's newest runs to the page.
func (t *treePage) addRuns(f *state.State, s *state.Session, one *TreeSession) {
	reports := map[*state.Row][]string{}
	for _, child := range f.Trees.Children[s.Ident] {
		for r := range child.Rows() {
			if turn := r.Turn(); turn != nil && turn.Session() == s {
				reports[turn] = append(reports[turn], r.ID())
			}
		}
	}
	one.Runs = make([]TreeRun, 0, s.Runs()-one.RunsOmitted) // never moved: errors are filled in later
	skip := one.RunsOmitted
	for r := range s.Rows() {
		if skip > 0 {
			skip--
			continue
		}
		at := state.ViewOf(f, r)
		one.Runs = append(one.Runs, treeRun(&at, reports[r]))
		t.runs++
		if at.Active == nil && at.Status != run.Completed {
			t.failed = append(t.failed, unexplained{at, &one.Runs[len(one.Runs)-1].Error})
		}
	}
}

func treeRun(s *state.View, reports []string) TreeRun {
	r := s.Run()
	kind := run.Start
	if s.Resume {
		kind = run.Resume
	}
	followed := r.Attempt - 1
	if s.Active != nil {
		followed = s.Active.AttemptNumber() - 1
	}
	return TreeRun{
		Followed: followed, ID: r.ID, Type: kind, Status: r.Status, Mode: s.Mode(), Attempt: r.Attempt,
		RunnerID: r.RunnerID, CreatedAt: r.CreatedAt, ClaimedAt: r.ClaimedAt,
		StartedAt: r.StartedAt, EndedAt: r.EndedAt, Callback: r.Callback,
		Reports: slices.Sorted(slices.Values(reports)),
	}
}

// explained reads why runs did not complete, several at once. What cannot be read now stays empty.
func (x *Lists) explained(ctx context.Context, failed []unexplained) error {
	var wg sync.WaitGroup
	slots := make(chan struct{}, readers)
	for _, one := range failed {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if e, err := x.reader.endRecord(ctx, one.View); err == nil {
				*one.into = e.Error
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}
