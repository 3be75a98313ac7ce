package projection

// waits counts the waiting runs of each caller, and of each session's tree.
type waits struct {
	callers map[string]int
	trees   map[string]int // by the session at the top
}

// add counts a run that begins (1) or ceases (-1) to wait.
func (w *waits) add(r *row, n int) {
	count(w.callers, r.live.caller, n)
	count(w.trees, r.live.tree, n)
}

// count changes a count, and forgets it at zero.
func count(of map[string]int, who string, n int) {
	if of[who] += n; of[who] == 0 {
		delete(of, who)
	}
}

// top returns the session at the top of a session's tree, be it deleted. One whose parent was truncated is a top.
func (ts *trees) top(id string) string {
	for range maxDepth {
		var parent string
		if s := ts.session(id); s != nil {
			parent = s.Parent
		} else if above, deleted := ts.parents[identOf(sessionPrefix, id)]; deleted {
			parent = above.text(sessionPrefix)
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

// Waiting counts the waiting runs of all, of a caller, and of the tree that a session is in; without one, of none.
func (x *ActiveRuns) Waiting(caller, session string) Waiting {
	return read(x.p, func(f *reducer) Waiting {
		w := Waiting{f.waiting, f.waitlists.waits.callers[caller], 0}
		if session != "" {
			w.Tree = f.waitlists.waits.trees[f.trees.top(session)]
		}
		return w
	})
}

// Top returns the session at the top of a session's tree.
func (x *Index) Top(session string) string {
	return read(x.p, func(f *reducer) string { return f.trees.top(session) })
}
