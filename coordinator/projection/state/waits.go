package state

// waits counts the waiting runs of each caller, and of each session's tree.
type waits struct {
	callers map[string]int
	trees   map[string]int // by the session at the top
}

// add counts a run that begins (1) or ceases (-1) to wait.
func (w *waits) add(r *Row, n int) {
	count(w.callers, r.live.caller, n)
	count(w.trees, r.live.tree, n)
}

// count changes a count, and forgets it at zero.
func count(of map[string]int, who string, n int) {
	if of[who] += n; of[who] == 0 {
		delete(of, who)
	}
}

// Top returns the session at the top of a session's tree, be it deleted. One whose parent was truncated is a top.
func (ts *trees) Top(id string) string {
	for range maxDepth {
		var parent string
		if s := ts.Session(id); s != nil {
			parent = s.Parent
		} else if above, deleted := ts.parents[IdentOf(SessionPrefix, id)]; deleted {
			parent = above.Text(SessionPrefix)
		}
		if parent == "" {
			break
		}
		id = parent
	}
	return id
}

// Waiting is how many runs wait for a runner.
type Waiting struct {
	All    int
	Caller int // of them a caller's
	Tree   int // of them in a session's tree
}

// WaitingOf counts the waiting runs of all, of a caller, and of the tree that a session is in; without one, of none.
func WaitingOf(f *State, caller, session string) Waiting {
	w := Waiting{f.waiting, f.Waitlists.waits.callers[caller], 0}
	if session != "" {
		w.Tree = f.Waitlists.waits.trees[f.Trees.Top(session)]
	}
	return w
}
