//go:build !unix

package spirv

import "testing"

// pipe is reached only with shell scripts as tools, that is on Unix.
type pipe struct{ path string }

func newPipe(*testing.T) pipe           { return pipe{} }
func (pipe) waitForWriter(*testing.T)   {}
func (pipe) waitForNoWriter(*testing.T) {}
