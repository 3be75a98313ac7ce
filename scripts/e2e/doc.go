// Package e2e contains the end-to-end tests ("stories"): real programs (coordinator, worker, ao), a real NATS server
// in its own process, and clients over HTTP and NATS. The tests build the programs once.
package e2e
