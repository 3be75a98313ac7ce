//go:build linux

// Command intruder is a procedural agent of the compose test. It searches all readable files of its container for
// secrets of NATS users and for a model's key.
package main

import (
	"encoding/json"
	"os"
	"regexp"

	"ao/worker/process/secretsearch"
)

func main() {
	secret := regexp.MustCompile(`\bS[U]A[A-P][A-Z2-7]{54}\b|s[k]-ant-stand-in`)
	_ = json.NewEncoder(os.Stdout).Encode(secretsearch.Search(secret, []string{"/"}, []string{"/keys", "/run/secrets"},
		nil))
}
