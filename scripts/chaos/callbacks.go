package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// The lines by which a callback names its children.
var (
	singleChild = regexp.MustCompile(`(?m)^<agent-callback session="([^"]+)" status=`)
	childOfMany = regexp.MustCompile(`(?m)^### Child: (\S+) \(status:`)
)

// childrenIn returns the children named in the prompt of a callback.
func childrenIn(prompt string) (ids []string) {
	if !strings.Contains(prompt, "<agent-callback ") {
		return nil
	}
	for _, m := range append(singleChild.FindAllStringSubmatch(prompt, -1),
		childOfMany.FindAllStringSubmatch(prompt, -1)...) {
		ids = append(ids, m[1])
	}
	return ids
}

// checkCallbacks waits until no callback is pending. Each ended child must be delivered in exactly one callback turn
// that a runner claimed.
func (j *verifier) checkCallbacks(ctx context.Context) {
	prompts := map[string]string{} // of turns, by run
	var wrong []violation
	_ = waitWithin(ctx, deliveryTimeout, "every callback is delivered", func() bool {
		list, err := j.listRuns(ctx, j.s.urls[0], "")
		if err != nil {
			return false
		}
		j.runs = list
		wrong = j.compareDeliveries(ctx, prompts)
		return len(wrong) == 0
	})
	for _, f := range wrong {
		j.b.addViolation(f.ids, "%s", f.what)
	}
}

// compareDeliveries compares due callbacks with delivered ones.
func (j *verifier) compareDeliveries(ctx context.Context, prompts map[string]string) (wrong []violation) {
	mine := map[string]bool{}
	for _, e := range j.b.accepted() {
		mine[e.run] = true
	}
	missed := func(ids []string, format string, args ...any) {
		wrong = append(wrong, violation{what: fmt.Sprintf(format, args...), ids: ids})
	}
	type pair struct{ parent, child string }
	owed, delivered := map[pair]int{}, map[pair]int{}
	by := map[pair][]string{}
	var children, turns, lost int
	for _, v := range j.runs {
		if v.Mode != "async_callback" || v.Parent == "" {
			continue
		}
		children++
		p := pair{v.Parent, v.Session}
		by[p] = append(by[p], v.ID)
		if !isFinal(v.Status) {
			missed([]string{v.ID, v.Session, v.Parent}, "child %s has not ended", v.ID)
			continue
		}
		owed[p]++
	}
	for id, v := range j.runs {
		if mine[id] || v.Type != "resume_session" {
			continue
		}
		prompt, ok := prompts[id]
		if !ok {
			var whole runView
			a := request(ctx, j.s.urls[0], "GET", "/runs/"+id, nil, "", 20*time.Second) // lists omit large members
			if a.code != http.StatusOK || a.decode(&whole) != nil {
				missed([]string{id}, "callback run %s cannot be read: %d %.200s", id, a.code, a.body)
				continue
			}
			prompt = whole.Parameters.Prompt
			prompts[id] = prompt
		}
		ids := childrenIn(prompt)
		if len(ids) == 0 {
			missed([]string{id, v.Session}, "run %s of session %s was started by no client and is no callback: %.200q",
				id, v.Session, prompt)
		}
		turns++
		if v.Runner == "" { // no runner claimed it: its children are due again
			lost++
			continue
		}
		for _, child := range ids {
			if c, ok := j.runs[child]; ok {
				child = c.Session
			}
			p := pair{v.Session, child}
			delivered[p]++
			by[p] = append(by[p], id)
		}
		if v.Status == "completed" {
			if t, err := j.s.readInvocation(id, v.Attempt); err != nil || t.Parameters.Prompt != prompt {
				missed([]string{id}, "the executor of callback run %s got another prompt than the run has: %v %.200q",
					id, err, t.Parameters.Prompt)
			}
		}
	}
	for p, n := range owed {
		if delivered[p] != n {
			missed(append(by[p], p.parent, p.child), "parent %s got %d callbacks for %d ends of child %s", p.parent,
				delivered[p], n, p.child)
		}
	}
	for p, n := range delivered {
		if owed[p] == 0 {
			missed(append(by[p], p.parent, p.child), "parent %s got %d callbacks for %s, which is not its child",
				p.parent, n, p.child)
		}
	}
	j.r.Children, j.r.CallbackTurns, j.r.TurnsNotBegun = children, turns, lost
	return wrong
}
