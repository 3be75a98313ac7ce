//go:build race

package main

// raced: the programs are built as the test was.
const raced = true
