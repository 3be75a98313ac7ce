// Package agents has the example agents, for programs that run without a checkout.
package agents

import "embed"

// Files are the folders procedural and autonomous, with a folder for each agent, and those of the profiles echo and
// test-procedural.
//
//go:embed procedural autonomous echo test-procedural
var Files embed.FS
