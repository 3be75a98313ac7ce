// Package browser contains the tests of the dashboard in a real browser with a real coordinator, worker and NATS.
// They need Chromium: scripts/browser/run installs it if possible and runs them. Other test runs skip them.
package browser
