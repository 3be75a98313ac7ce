// Package browser has the tests of the dashboard in a real browser, against a real coordinator, worker and NATS. They
// need Chromium: scripts/browser/run installs it where it may, and runs them. Other test runs skip them, and say so.
package browser
