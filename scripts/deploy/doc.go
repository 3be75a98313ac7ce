// Package deploy contains examples for running Agent Orchestrator in production (Kubernetes, systemd, reverse proxies,
// backups), and the tests that they fit the programs.
package deploy
