// Worker runs each of its profiles as a runner, all on one NATS connection, until SIGTERM or Ctrl-C.
package main

import (
	"os"

	"ao/worker/serve"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "health" {
		health()
	}
	serve.Main("worker", nil)
}
