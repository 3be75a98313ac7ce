// Package fuzz asks two validators the same questions: ours, and github.com/santhosh-tekuri/jsonschema, which passes
// the official suite. Where they differ, one of them is wrong. `go test` asks some ten thousand, `scripts/fuzz-schema`
// as many as there is time for.
package fuzz
