//go:build !unix && !windows

package spirv

import (
	"os"
	"os/exec"
)

// group is a tool. What it starts is not followed here.
type group struct{ cmd *exec.Cmd }

// newGroup leaves cmd unchanged: the end of its context kills only the tool itself.
func newGroup(cmd *exec.Cmd) (*group, error) { return &group{cmd}, nil }

func (*group) close() {}

func died(state *os.ProcessState) bool { return !state.Exited() }
