// Package fuzz compares our schema validator with github.com/santhosh-tekuri/jsonschema, which passes the official
// suite, on random schemas and values. `go test` tries about ten thousand, `scripts/fuzz-schema` runs as long as
// requested.
package fuzz
