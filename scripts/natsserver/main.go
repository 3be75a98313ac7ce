// Command natsserver is the NATS server of the tests that kill it (natstest.Proc), built without the race detector. The
// server is not our code, and with the detector it needs several times the CPU time.
package main

import (
	"fmt"
	"os"

	_ "ao/nats/natstest" // its init runs the server where the environment asks for it
)

func main() {
	fmt.Fprintln(os.Stderr, "natsserver: run scripts/test, whose tests start it with their environment")
	os.Exit(2)
}
