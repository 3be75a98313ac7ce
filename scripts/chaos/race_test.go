//go:build race

package main

// raceEnabled: the programs are built as the test was.
const raceEnabled = true
