//go:build amd64 || arm64

// Package spin waits for other threads for less time than a call of the operating system or of Go's scheduler takes.
package spin

// Pause waits for about 10 to 50 nanoseconds. It leaves the core to its other hardware thread meanwhile.
//
//go:noescape
func Pause()
