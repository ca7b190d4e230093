//go:build unix

package spirv

import (
	"os/exec"
	"syscall"
)

// killGroup makes the end of cmd's context kill the tool's whole process
// group: an installed tool may be a shell script around the real program.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
