package hostmem

import (
	"bytes"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// addressMargin is address space that Go and C use beyond their allocations: Go's heap grows in steps of 64 MiB and
// abandons the rest of the previous step, and each thread has a stack and a C heap.
const addressMargin = 512 << 20

// limits returns the limits of this process's memory.
func limits() []limit {
	return system{root: "/", rlimit: func(resource int) (uint64, bool) {
		var l unix.Rlimit
		err := unix.Getrlimit(resource, &l)
		return l.Cur, err == nil && l.Cur != unix.RLIM_INFINITY
	}, heap: heap}.limits()
}

// system is the source of limits. Tests replace its files.
type system struct {
	root   string
	rlimit func(resource int) (uint64, bool)
	heap   func() (free, released int64)
}

// limits returns the limits of the machine, of the control groups, and of ulimit.
func (s system) limits() (list []limit) {
	free, released := s.heap()
	memory := s.fields("proc/meminfo")
	if available, ok := memory["MemAvailable"]; ok {
		list = append(list, limit{available + memory["SwapFree"] + free, "the machine's memory"})
	}
	for _, l := range s.groups() {
		list = append(list, limit{l.left + free, l.by})
	}
	status := s.fields("proc/self/status")
	for _, of := range []struct {
		resource int
		used     string
		by       string
	}{{unix.RLIMIT_AS, "VmSize", "ulimit -v"}, {unix.RLIMIT_DATA, "VmData", "ulimit -d"}} {
		most, limited := s.rlimit(of.resource)
		if used, ok := status[of.used]; ok && limited {
			// Go never returns address space, and its free ranges are fragmented: assume that a quarter of them is
			// usable.
			left := int64(min(most, math.MaxInt64)) - used - addressMargin
			list = append(list, limit{max(left, (free+released)/4), of.by})
		}
	}
	return list
}

// groups returns the memory limits of the process's control groups and their parents, in version 1 or 2 of control
// groups.
func (s system) groups() (list []limit) {
	text, err := os.ReadFile(path.Join(s.root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(parts) != 3: // no line of a group
		case parts[1] == "": // version 2 lists no controllers
			list = append(list, s.tree("sys/fs/cgroup", parts[2], "memory.max", "memory.current", "inactive_file")...)
		case strings.Contains(","+parts[1]+",", ",memory,"):
			list = append(list, s.tree("sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes",
				"memory.usage_in_bytes", "total_inactive_file")...)
		}
	}
	return list
}

// tree returns the limits of a group and its parents. In a container the group's own files may be at the root.
func (s system) tree(mount, group, most, used, cached string) (list []limit) {
	for at := path.Join("/", group); ; at = path.Dir(at) {
		dir := path.Join(mount, at)
		limited, ok := s.limit(path.Join(dir, most))
		have, known := s.limit(path.Join(dir, used))
		if ok && known {
			have -= min(have, s.fields(path.Join(dir, "memory.stat"))[cached]) // page cache, which the system can drop
			list = append(list, limit{limited - have, "the memory limit of control group " + at})
		}
		if at == "/" {
			return list
		}
	}
}

// limit reads a file with the number of a limit. ok is false if there is none: cgroups of version 1 then have a very
// large number, and cgroups of version 2 "max".
func (s system) limit(name string) (n int64, ok bool) {
	const unlimited = 1 << 60 // or more
	text, err := os.ReadFile(path.Join(s.root, name))
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil && n < unlimited
}

// fields reads a file of lines "NAME NUMBER", such as /proc/meminfo, and returns the numbers by name. A number in kB is
// converted to bytes. It returns nil if the file cannot be read.
func (s system) fields(name string) map[string]int64 {
	text, err := os.ReadFile(path.Join(s.root, name))
	if err != nil {
		return nil
	}
	all := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		parts := strings.Fields(line)
		if len(parts) < 2 {
			continue
		}
		n, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			continue
		}
		if len(parts) > 2 && parts[2] == "kB" {
			n <<= 10
		}
		all[strings.TrimSuffix(parts[0], ":")] = n
	}
	return all
}
