package spirv

import (
	"errors"
	"os"
	"os/exec"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// group is a tool and its children, as a job object. The tool joins the job right after it has started.
type group struct {
	cmd *exec.Cmd
	job windows.Handle
}

// newGroup changes cmd so that the whole group is killed when its context ends. The caller starts cmd, limits the
// group, and closes it after Wait.
func newGroup(cmd *exec.Cmd) (*group, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateJobObject", err)
	}
	cmd.Cancel = func() error { // kill also the tool itself, which may not have joined yet
		return errors.Join(windows.TerminateJobObject(job, 1), cmd.Process.Kill())
	}
	return &group{cmd, job}, nil
}

// close ends the children of the tool that still run, because the job is killed when its last handle closes.
func (g *group) close() { windows.CloseHandle(g.job) }

// limit puts a process that has just started into its job, and limits it and its future children.
func (g *group) limit(l limits) error {
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE |
		windows.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION | // instead of a dialog
		windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY | windows.JOB_OBJECT_LIMIT_PROCESS_TIME
	info.BasicLimitInformation.PerProcessUserTimeLimit = int64(l.cpu / (100 * time.Nanosecond))
	info.ProcessMemoryLimit = uintptr(l.memory)
	if _, err := windows.SetInformationJobObject(g.job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		return os.NewSyscallError("SetInformationJobObject", err)
	}
	process, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false,
		uint32(g.cmd.Process.Pid))
	if err != nil {
		return os.NewSyscallError("OpenProcess", err)
	}
	defer windows.CloseHandle(process)
	err = windows.AssignProcessToJobObject(g.job, process)
	// A process that has ended cannot join the job, which is no error. Waiting for its handle succeeds at once.
	if state, _ := windows.WaitForSingleObject(windows.Handle(process), 0); err != nil && state != windows.WAIT_OBJECT_0 {
		return os.NewSyscallError("AssignProcessToJobObject", err)
	}
	return nil
}

// outOfTime reports whether the process was ended because of its processor time.
func (g *group) outOfTime(l limits) bool { return g.cmd.ProcessState.UserTime() >= l.cpu }

// maxMemory returns the peak memory, in bytes, of any process of the group, and false if it is unknown.
func (g *group) maxMemory() (int64, bool) {
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	err := windows.QueryInformationJobObject(g.job, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil)
	return int64(info.PeakProcessMemoryUsed), err == nil && info.PeakProcessMemoryUsed > 0
}

// died reports whether an exception ended the process: its exit code is then an NTSTATUS of severity error.
func died(state *os.ProcessState) bool { return uint32(state.ExitCode()) >= 0xC0000000 }
