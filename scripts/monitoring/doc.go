// Package monitoring holds what Prometheus and Grafana need to watch a deployment, and the test that it fits what the
// programs tell.
package monitoring
