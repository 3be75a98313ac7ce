package keyring

import (
	"fmt"
	"os"

	"ao/nats/disk"
	"ao/nats/subject"
	"ao/nats/users"
)

// stagingFolders creates the mount points for batches in memory. Docker would create missing ones as root, and NATS
// could not create its stream there.
func (r *Result) stagingFolders(w Options) error {
	for _, data := range w.Staging {
		if _, err := os.Stat(data); err != nil { // a typing error: no server uses it
			return fmt.Errorf("the data folder of NATS: %w", err)
		}
		dir := disk.Batches(data, users.AccountCoordinators, subject.Runs)
		name, err := r.relative(dir)
		if err != nil {
			return err
		}
		state := stateKept
		if _, err := os.Stat(dir); err != nil {
			state = stateMade
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		r.record(name, state, "NATS stages batches of records here: mount memory over it")
	}
	return nil
}
