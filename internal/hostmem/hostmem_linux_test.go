package hostmem

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLimits finds all memory limits of a process: the machine, control groups of both versions and their parents, and
// ulimit.
func TestLimits(t *testing.T) {
	const gib = 1 << 30
	machine := map[string]string{
		"proc/meminfo":     "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\nSwapFree: 0 kB\n",
		"proc/self/status": "Name:\tvkc\nVmSize:\t 1048576 kB\nVmData:\t  524288 kB\n",
	}
	for _, tt := range []struct {
		name      string
		files     map[string]string
		as, data  uint64
		free, rel int64
		room      int64
		by        string
	}{
		{name: "the machine", room: 8 * gib, by: "machine"},
		{name: "what Go has to spare", free: gib, room: 9 * gib, by: "machine"},
		{name: "version 2", files: map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "2147483648\n", "sys/fs/cgroup/a/b/memory.current": "1610612736\n",
			"sys/fs/cgroup/a/b/memory.stat": "anon 5\ninactive_file 536870912\n"}, room: gib, by: "group /a/b"},
		{name: "a group around it", files: map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "0\n",
			"sys/fs/cgroup/a/memory.max": "3221225472\n", "sys/fs/cgroup/a/memory.current": "0\n"},
			room: 3 * gib, by: "group /a"},
		{name: "version 1 in a container", files: map[string]string{
			"proc/self/cgroup":                           "5:cpu,cpuacct:/x\n4:memory:/docker/123\n0::/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "805306368\n",
			"sys/fs/cgroup/memory/memory.stat":           "total_inactive_file 268435456\n"}, room: gib / 2, by: "group /"},
		{name: "version 1 without a limit", files: map[string]string{"proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes": "0\n"}, room: 8 * gib, by: "machine"},
		{name: "addresses", as: 4 * gib, room: 3*gib - addressMargin, by: "ulimit -v"},
		{name: "addresses that Go has", as: gib, free: 3 * gib, rel: gib, room: gib, by: "ulimit -v"},
		{name: "data", data: 2 * gib, room: 3*gib/2 - addressMargin, by: "ulimit -d"},
		{name: "nothing", as: gib / 2, room: 0, by: "ulimit -v"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for _, files := range []map[string]string{machine, tt.files} {
				for name, text := range files {
					file := filepath.Join(root, name)
					if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
						t.Fatal(err)
					}
				}
			}
			s := system{root: root, heap: func() (int64, int64) { return tt.free, tt.rel },
				rlimit: func(resource int) (uint64, bool) {
					n := map[int]uint64{unix.RLIMIT_AS: tt.as, unix.RLIMIT_DATA: tt.data}[resource]
					return n, n > 0
				}}
			list := s.limits()
			var full *Error
			if err := check(tt.room-uncheckedBytes+1, list); !errors.As(err, &full) || full.Room != tt.room ||
				!strings.Contains(full.By, tt.by) {
				t.Errorf("a byte more than there is: %+v, want room for %d by %q, of %v", full, tt.room, tt.by, list)
			}
			if err := check(tt.room-uncheckedBytes, list); err != nil {
				t.Errorf("as much as there is: %v", err)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	room, by := Room()
	if room <= 0 || by == "" {
		t.Fatalf("room for %d by %q", room, by)
	}
	full := (*Error)(nil)
	if err := Check(1 << 50); !errors.As(err, &full) {
		t.Errorf("a million gigabytes: %v", err)
	}
	for range 3 {
		if err := Check(1); err != nil {
			t.Errorf("a byte: %v", err)
		}
	}
}
