package spirv

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limit bounds a process that has just been started, and what it starts
// from now on. It has no head start to speak of: the tools take milliseconds to
// load, and memory that it has already counts.
func (g *group) limit(l limits) error {
	pid := g.cmd.Process.Pid
	seconds := uint64(max(l.cpu/time.Second, 1))
	for _, row := range []struct {
		resource int
		soft     uint64
		hard     uint64
	}{
		{unix.RLIMIT_AS, uint64(l.memory), uint64(l.memory)},
		{unix.RLIMIT_CPU, seconds, seconds + 1}, // SIGXCPU, and SIGKILL for who ignores it
		{unix.RLIMIT_FSIZE, maxOutput, maxOutput},
		{unix.RLIMIT_CORE, 0, 0}, // nobody asked for the dump of a tool
	} {
		var has unix.Rlimit
		err := unix.Prlimit(pid, row.resource, nil, &has)
		if err == nil {
			limit := unix.Rlimit{Cur: min(row.soft, has.Max), Max: min(row.hard, has.Max)}
			err = unix.Prlimit(pid, row.resource, &limit, nil)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) { // it has ended already
			return os.NewSyscallError("prlimit", err)
		}
	}
	return nil
}

// outOfTime reports whether the kernel ended a process for its processor time.
func (g *group) outOfTime(limits) bool {
	status, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGXCPU
}

// maxMemory returns the most memory in bytes that a process had. The kernel counts to it
// what this process had when it started that one: who had no more than about so much,
// as the kernel's counts are not exact, is taken to have had nothing.
func (g *group) maxMemory() (int64, bool) {
	usage, ok := g.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	var own syscall.Rusage
	if !ok || syscall.Getrusage(syscall.RUSAGE_SELF, &own) != nil {
		return 0, false
	}
	if usage.Maxrss <= own.Maxrss+own.Maxrss/8 {
		return 0, true
	}
	return usage.Maxrss << 10, true
}
