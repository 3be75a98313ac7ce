//go:build !race

package outputschema

// slow divides the sizes of the texts: the race detector needs about ten times as long.
const slow = 1
