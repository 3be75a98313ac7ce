// Package newcomer reads the README and operating.md as a newcomer does: in an empty folder, line by line. It runs each
// line as it is written and checks what the reader is told to expect. Its tests need `-tags newcomer`; `.ci/run` runs
// them.
package newcomer
