// Package profiles has the example profiles, for programs that run without a checkout.
package profiles

import "embed"

// Files are the profiles.
//
//go:embed *.json
var Files embed.FS
