// Command allinone runs the whole system in one process: NATS with JetStream, a coordinator and a worker. Tests start
// it; people start 'ao up', which is the same with embedded agents.
package main

import "ao/scripts/allinone/up"

func main() { up.Main("allinone") }
