// Package e2e is stories: real programs (coordinator, worker, ao), a real NATS server in a process of its own, and
// a user who talks HTTP and NATS to them. Its tests build the programs once.
package e2e
