//go:build race

package e2e

// The programs race as the tests do.
var buildFlags = []string{"-race"}
