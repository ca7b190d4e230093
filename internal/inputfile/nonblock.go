//go:build !js

package inputfile

import "syscall"

// NonBlocking is the flag with which opening a pipe that has no other end fails instead of blocking.
const NonBlocking = syscall.O_NONBLOCK
