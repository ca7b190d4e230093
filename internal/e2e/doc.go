// Package e2e holds end-to-end tests: they compile graphs for a device, run them, and compare every result with the
// reference interpreter.
package e2e
