// Package users is who may do what over NATS: the roles, what each may publish and listen to, and the server's configuration that
// says so. The server refuses the rest; nothing here is asked while messages flow.
//
// Coordinators have an account of their own, which holds the streams. Workers and publishers are in two other accounts, where
// there is nothing but what they import from it: so they cannot have a server or a coordinator write anything there on their behalf
// either, by the reply subject of a request (decision 0018).
package users

import (
	"fmt"
	"slices"
	"strings"

	"ao/nats/subject"
)

// Role is what a user is.
type Role string

// The roles.
const (
	Coordinator Role = "coordinator" // everything
	Worker      Role = "worker"      // takes the runs of its profiles and tells of them
	Publisher   Role = "publisher"   // asks for runs
)

// Profile is an executor profile that a worker runs.
type Profile struct{ Type, Name string }

func (p Profile) String() string { return p.Type + "." + p.Name }

// ReadProfile reads TYPE.NAME, such as procedural.text.
func ReadProfile(text string) (Profile, error) {
	kind, name, ok := strings.Cut(text, ".")
	if !ok || kind != "procedural" && kind != "autonomous" || subject.Check(name) != nil {
		return Profile{}, fmt.Errorf("profile %.80q: write TYPE.NAME, as procedural.text or autonomous.claude-code", text)
	}
	return Profile{kind, name}, nil
}

// User is who logs in.
type User struct {
	Name     string // for people: worker, worker-text
	Role     Role
	Key      string    // the public nkey
	Profiles []Profile // of a worker: these alone; none: whatever it registers as
}

// CredentialID is the token under which the user is spoken to.
func (u User) CredentialID() string { return subject.CredentialID(u.Key) }

// InboxPrefix is the prefix of the user's inboxes; it may listen to no others.
func (u User) InboxPrefix() string { return subject.InboxPrefix(u.CredentialID()) }

// Permissions are a user's permissions, as the server has them.
type Permissions struct {
	Publish        []string // subjects it may publish to, and send requests to
	Deny           []string // but for these
	Subscribe      []string
	AllowResponses bool // it may answer what it is asked, and acknowledge what it is handed
}

// service is a subject of the coordinators' account that others may send requests to.
type service struct {
	subject   string
	stream    bool   // more than one answer
	threshold string // how long the server keeps the way back for an answer; default two minutes
	indirect  bool   // sent only as an answer: no permission to publish
	named     bool   // the server tells coordinators whose credential sent it
}

// services are what each role may do, beside having an inbox: this list is the whole of it.
var services = map[Role][]service{
	Worker: {
		{subject: subject.RunnerAPI("*"), named: true}, // registration excepted: see rights
		{subject: subject.Register("*", "*"), named: true},
		{subject: subject.Heartbeats("*"), named: true},
		{subject: subject.Claimed("*", "*", "*")},
		{subject: subject.Bound("*", "*", "*")},
		{subject: subject.Offered("*", "*", "*")},
		{subject: subject.Ended("*", "*", "*")},
		{subject: subject.Event("*", "*", "*", "*")},
		{subject: subject.RejectedRuns},                              // queue messages that it cannot read
		{subject: subject.Pull("*"), stream: true, threshold: "15s"}, // longer than a pull lives
		{subject: subject.Acks, indirect: true},                      // of what it was handed, by allow_responses
	},
	Publisher: {
		{subject: subject.APIRunsCreate, threshold: "1h"}, // mode sync waits for the run
		{subject: subject.APIRunsGet},
		{subject: subject.APIRunsStop},
		{subject: subject.APIAgentsList},
		{subject: subject.InboxRuns},
	},
}

// Permissions are the permissions of a user among others.
func (u User) Permissions(others []User) Permissions {
	if u.Role == Coordinator {
		return Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	}
	r := Permissions{Subscribe: []string{u.InboxPrefix() + ".>"}, AllowResponses: u.Role == Worker}
	if u.Role == Worker {
		r.Subscribe = append(r.Subscribe, subject.CommandsFor(u.CredentialID(), "*"))
	}
	for _, s := range services[u.Role] {
		if !s.indirect {
			r.Publish = append(r.Publish, s.subject)
		}
	}
	if u.Role == Worker && len(u.Profiles) > 0 {
		u.confine(&r, others)
	}
	return r
}

// confine leaves a worker its own profiles: it registers as one of these, and is refused the lanes of profiles that others run.
// The lanes of its own cannot be listed beforehand: those with further demands are made as runs come, and a consumer's name is one token.
func (u User) confine(r *Permissions, others []User) {
	r.Publish = slices.DeleteFunc(r.Publish, func(s string) bool { return s == subject.Register("*", "*") })
	r.Deny = append(r.Deny, subject.RunnerAPI("register"))
	kinds := map[string]bool{}
	for _, p := range u.Profiles {
		kinds[p.Type] = true
		r.Publish = append(r.Publish, subject.Register(p.Type, p.Name))
	}
	for _, kind := range []string{"autonomous", "procedural"} {
		if !kinds[kind] {
			r.Deny = append(r.Deny, pullOf(kind, "_"))
		}
	}
	for _, other := range others {
		for _, p := range other.Profiles {
			if lane := pullOf(p.Type, p.Name); !slices.Contains(u.Profiles, p) && !slices.Contains(r.Deny, lane) {
				r.Deny = append(r.Deny, lane)
			}
		}
	}
}

// pullOf is the request for runs of a profile that want nothing else.
func pullOf(kind, profile string) string {
	return subject.Pull(subject.TaskQueueDurable(subject.TaskQueue(kind, profile, "_")))
}
