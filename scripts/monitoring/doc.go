// Package monitoring contains the Prometheus and Grafana configuration for a deployment, and the test that it matches
// the programs' metrics.
package monitoring
