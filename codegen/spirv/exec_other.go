//go:build !unix && !windows

package spirv

import (
	"os"
	"os/exec"
)

// group is a tool. On these systems the tool's children are not tracked.
type group struct{ cmd *exec.Cmd }

// newGroup does not change cmd: when its context ends, only the tool itself is killed.
func newGroup(cmd *exec.Cmd) (*group, error) { return &group{cmd}, nil }

func (*group) close() {}

// died reports whether the tool ended without an exit status.
func died(state *os.ProcessState) bool { return !state.Exited() }
