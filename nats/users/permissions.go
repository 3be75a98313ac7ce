// Package users defines who may do what over NATS: the roles, what each may publish and subscribe to, and the
// server's configuration that enforces it.
//
// Coordinators have an account of their own with the streams. Workers and publishers are in two other accounts
// with nothing except their imports from it. So they cannot make a server or a coordinator write something
// there on their behalf, by the reply subject of a request.
package users

import (
	"fmt"
	"slices"
	"strings"

	"ao/nats/subject"
	"ao/shared/run"
)

// Role is what a user is for.
type Role string

// The roles.
const (
	Coordinator Role = "coordinator" // everything
	Worker      Role = "worker"      // claims the runs of its profiles and reports on them
	Publisher   Role = "publisher"   // asks for runs
)

// Profile is an executor profile that a worker runs.
type Profile struct{ Type, Name string }

func (p Profile) String() string { return p.Type + "." + p.Name }

// ReadProfile reads TYPE.NAME, such as procedural.text.
func ReadProfile(text string) (Profile, error) {
	kind, name, ok := strings.Cut(text, ".")
	if !ok || kind != "procedural" && kind != "autonomous" || subject.Check(name) != nil {
		return Profile{}, fmt.Errorf("profile %.80q: write TYPE.NAME, as procedural.text or autonomous.claude-code",
			text)
	}
	return Profile{kind, name}, nil
}

// User is a NATS user.
type User struct {
	Name     string // for people: worker, worker-text
	Role     Role
	Key      string    // the public nkey
	Profiles []Profile // of a worker: it may register only these; none: any
}

// CredentialID returns the user's id in subjects.
func (u User) CredentialID() string { return subject.CredentialID(u.Key) }

// InboxPrefix returns the prefix of the user's inboxes. It may listen to no others.
func (u User) InboxPrefix() string { return subject.InboxPrefix(u.CredentialID()) }

// Permissions are a user's permissions, as the server has them.
type Permissions struct {
	Publish        []string // subjects it may publish to
	Deny           []string // exceptions from Publish
	Subscribe      []string
	AllowResponses bool // it may reply to requests, and acknowledge deliveries
}

// service is a subject of the coordinators' account that others may send requests to.
type service struct {
	subject   string
	stream    bool   // more than one reply
	threshold string // how long the server accepts replies; default two minutes
	indirect  bool   // only sent as a reply: no permission to publish
	named     bool   // the server tells coordinators the sender's credential
}

// services are everything that each role may do, besides its inbox.
var services = map[Role][]service{
	Worker: slices.Concat([]service{
		{subject: subject.RunnerAPI("*"), named: true}, // except registration: see Permissions
		{subject: subject.Register("*", "*"), named: true},
		{subject: subject.Heartbeats("*"), named: true},
		{subject: subject.Claimed("*", "*", "*")},
		{subject: subject.Bound("*", "*", "*")},
		{subject: subject.Offered("*", "*", "*")},
		{subject: subject.Ended("*", "*", "*")},
	}, events(append(slices.Clone(run.ReportedKinds), run.PackKind)), []service{
		{subject: subject.RejectedRuns},                              // queue messages that it cannot read
		{subject: subject.Pull("*"), stream: true, threshold: "15s"}, // longer than a pull lives
		{subject: subject.Acks, indirect: true},                      // of its deliveries, by allow_responses
	}),
	Publisher: {
		{subject: subject.APIRunsCreate, threshold: "1h"}, // mode sync waits for the run
		{subject: subject.APIRunsGet},
		{subject: subject.APIRunsStop},
		{subject: subject.APIAgentsList},
		{subject: subject.InboxRuns},
	},
}

// events are the events of any run. Each subject takes NATS's memory, so a run has only as many as there are kinds.
func events(kinds []string) (all []service) {
	for _, kind := range kinds {
		all = append(all, service{subject: subject.Event("*", "*", "*", kind)})
	}
	return all
}

// Permissions returns the permissions of a user among others.
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
		u.restrictToProfiles(&r, others)
	}
	return r
}

// restrictToProfiles restricts a worker to its profiles: it may register only these, and is denied the task
// queues of other workers' profiles. Its own task queues cannot be listed in advance: those for further demands
// are created as runs come, and a consumer's name is one token.
func (u User) restrictToProfiles(r *Permissions, others []User) {
	r.Publish = slices.DeleteFunc(r.Publish, func(s string) bool { return s == subject.Register("*", "*") })
	r.Deny = append(r.Deny, subject.RunnerAPI("register"))
	kinds := map[string]bool{}
	for _, p := range u.Profiles {
		kinds[p.Type] = true
		r.Publish = append(r.Publish, subject.Register(p.Type, p.Name))
	}
	for _, kind := range []string{"autonomous", "procedural"} {
		if !kinds[kind] {
			r.Deny = append(r.Deny, pullSubject(kind, "_"))
		}
	}
	for _, other := range others {
		for _, p := range other.Profiles {
			if pull := pullSubject(p.Type, p.Name); !slices.Contains(u.Profiles, p) && !slices.Contains(r.Deny, pull) {
				r.Deny = append(r.Deny, pull)
			}
		}
	}
}

// pullSubject returns the request for runs of a profile without further demands.
func pullSubject(kind, profile string) string {
	return subject.Pull(subject.TaskQueueDurable(subject.TaskQueue(kind, profile, "_")))
}
