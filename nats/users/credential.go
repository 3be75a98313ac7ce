package users

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nkeys"
)

// Credential is a user with the seed of its nkey, which is the secret.
type Credential struct {
	User
	seed []byte
}

// New makes a user with a new key.
func New(name string, role Role, profiles ...Profile) (Credential, error) {
	pair, err := nkeys.CreatePairWithRand(nkeys.PrefixByteUser, rand.Reader)
	if err != nil {
		return Credential{}, err
	}
	seed, err := pair.Seed()
	if err != nil {
		return Credential{}, err
	}
	key, err := pair.PublicKey()
	return Credential{User{Name: name, Role: role, Key: key, Profiles: profiles}, seed}, err
}

// The comment lines of a credential's file; NATS ignores them.
const (
	roleLine     = "# role: "
	profilesLine = "# profiles: "
)

// File returns the content of the credential's file (AO_NATS_CREDS).
func (c Credential) File() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# NATS user %s of Agent Orchestrator, made by 'ao init'. The last line is its secret.\n%s%s\n",
		c.Name, roleLine, c.Role)
	if len(c.Profiles) > 0 {
		fmt.Fprintf(&b, "%s%s\n", profilesLine, strings.Join(c.profiles(), " "))
	}
	fmt.Fprintf(&b, "# public key: %s, inbox prefix: %s\n%s\n", c.Key, c.InboxPrefix(), c.seed)
	return b.Bytes()
}

func (u User) profiles() []string {
	var all []string
	for _, p := range u.Profiles {
		all = append(all, p.String())
	}
	return all
}

// Read reads the file of the credential of a user with that name.
func Read(name string, file []byte) (Credential, error) {
	c := Credential{User: User{Name: name}}
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSpace(line)
		if role, ok := strings.CutPrefix(line, roleLine); ok {
			c.Role = Role(role)
		}
		if words, ok := strings.CutPrefix(line, profilesLine); ok {
			for _, word := range strings.Fields(words) {
				p, err := ReadProfile(word)
				if err != nil {
					return c, err
				}
				c.Profiles = append(c.Profiles, p)
			}
		}
	}
	if account[c.Role] == "" {
		return c, fmt.Errorf("no line %q with %s, %s or %s: it was not created by 'ao init'", roleLine, Coordinator,
			Worker, Publisher)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(file)
	if err != nil {
		return c, errors.New("no seed of an nkey user (SU…) in it") // the cause may contain the seed
	}
	c.seed, err = pair.Seed()
	if err != nil {
		return c, err
	}
	c.Key, err = pair.PublicKey()
	return c, err
}

// Sign answers a server's challenge, for nats.Nkey.
func (c Credential) Sign(nonce []byte) ([]byte, error) {
	pair, err := nkeys.FromSeed(c.seed)
	if err != nil {
		return nil, err
	}
	defer pair.Wipe()
	return pair.Sign(nonce)
}
