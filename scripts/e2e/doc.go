// Package e2e contains the end-to-end tests ("stories"). They run the real programs (coordinator, worker, ao) and a
// real NATS server, and call them over HTTP and NATS. The tests build the programs once.
package e2e
