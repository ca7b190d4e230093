//go:build unix

package spirv

import (
	"os"
	"os/exec"
	"syscall"
)

// group is a tool and its children: a process group, because an installed tool may be a shell script around the real
// program.
type group struct{ cmd *exec.Cmd }

// newGroup makes the end of cmd's context kill the whole group. The caller starts
// cmd, limits the group, and closes it after Wait.
func newGroup(cmd *exec.Cmd) (*group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return &group{cmd}, nil
}

func (*group) close() {}

// died reports whether a process was ended by a signal.
func died(state *os.ProcessState) bool { return !state.Exited() }
