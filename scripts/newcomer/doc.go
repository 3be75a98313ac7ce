// Package newcomer reads the README and the docs as a newcomer does: in an empty folder, command by command. It runs
// each as it is written and checks what the reader is told to expect. Package rules says which are not run, and why.
// The tests need `-tags newcomer`; `.ci/run` runs them.
package newcomer
