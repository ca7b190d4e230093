// Package bailout ends a piece of work at its first error. Functions that do the work call [Check], [Unless] or [Must],
// and the function that began it defers [Caught] and returns the error. The functions in between need no error
// results. A bailout never leaves a package or a goroutine: each exported function of a package that uses it catches
// it. Package internal/lint checks that.
package bailout

import "fmt"

// failure is the value of the panic with which a piece of work ends.
type failure struct{ error }

// Check ends the work if err is an error.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Unless ends the work with an error, in the form of [fmt.Errorf], unless ok is true.
func Unless(ok bool, format string, args ...any) {
	if !ok {
		panic(failure{fmt.Errorf(format, args...)})
	}
}

// Must returns v. If err is an error, it ends the work.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Caught, deferred, sets err to the error that ended the work. Other panics go on. If the function has other deferred
// calls that read err, such as a clean-up, defer Caught after them, so that it runs first.
func Caught(err *error) {
	switch thrown := recover().(type) {
	case nil:
	case failure:
		*err = thrown.error
	default:
		panic(thrown)
	}
}
