package spirv

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limit sets the resource limits of a process that has just started, which its future children inherit. The process
// cannot do much before that: the tools take milliseconds to load, and memory that it already uses counts.
func (g *group) limit(l limits) error {
	pid := g.cmd.Process.Pid
	seconds := uint64(max(l.cpu/time.Second, 1))
	for _, row := range []struct {
		resource int
		soft     uint64
		hard     uint64
	}{
		{unix.RLIMIT_AS, uint64(l.memory), uint64(l.memory)},
		{unix.RLIMIT_CPU, seconds, seconds + 1}, // first SIGXCPU, then SIGKILL for a tool that ignores it
		{unix.RLIMIT_FSIZE, maxOutput, maxOutput},
		{unix.RLIMIT_CORE, 0, 0}, // no core dumps
	} {
		var now unix.Rlimit // the limits so far; only a privileged process may raise the hard one
		err := unix.Prlimit(pid, row.resource, nil, &now)
		if err == nil {
			limit := unix.Rlimit{Cur: min(row.soft, now.Max), Max: min(row.hard, now.Max)}
			err = unix.Prlimit(pid, row.resource, &limit, nil)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended already
			return os.NewSyscallError("prlimit", err)
		}
	}
	return nil
}

// outOfTime reports whether the kernel ended the process because of its processor time.
func (g *group) outOfTime(limits) bool {
	status, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGXCPU
}

// maxMemory returns the peak memory of the process in bytes, and false if it is unknown. The kernel's count starts from
// the memory of vkc itself when it started the process, and is inexact. A peak up to an eighth above that memory says
// nothing about the process, and maxMemory returns 0.
func (g *group) maxMemory() (int64, bool) {
	usage, ok := g.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	var own syscall.Rusage
	if !ok || syscall.Getrusage(syscall.RUSAGE_SELF, &own) != nil {
		return 0, false
	}
	if usage.Maxrss <= own.Maxrss+own.Maxrss/8 {
		return 0, true
	}
	return usage.Maxrss << 10, true // from KiB
}
