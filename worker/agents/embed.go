// Package agents has the example agents, for programs that run without a checkout.
package agents

import "embed"

// Files are the folders procedural and autonomous, with a folder for each agent.
//
//go:embed procedural autonomous
var Files embed.FS
