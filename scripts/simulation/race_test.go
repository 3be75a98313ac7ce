//go:build race

package simulation

func init() { mostSeeds = 20 }
