// Package bailout stands for the module's package.
package bailout

// Check ends the work if err is an error.
func Check(error) {}

// Must returns v.
func Must[T any](v T, err error) T { return v }

// Caught sets err to the error that ended the work.
func Caught(err *error) {}
