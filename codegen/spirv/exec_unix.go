//go:build unix

package spirv

import (
	"os"
	"os/exec"
	"syscall"
)

// group is a tool and its children, as a process group. An installed tool may be a shell script around the real
// program.
type group struct{ cmd *exec.Cmd }

// newGroup changes cmd so that the whole group is killed when its context ends. The caller starts cmd, limits the
// group, and closes it after Wait.
func newGroup(cmd *exec.Cmd) (*group, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return &group{cmd}, nil
}

func (*group) close() {}

// died reports whether a signal ended the process.
func died(state *os.ProcessState) bool { return !state.Exited() }
