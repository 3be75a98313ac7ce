//go:build !race

package outputschema

// slow is how much longer things may take here.
const slow = 1
