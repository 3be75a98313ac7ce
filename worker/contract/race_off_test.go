//go:build !race

package contract

// slow is how much longer things may take here.
const slow = 1
