package vk

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/spv"
	"github.com/vkc-go/vkc/ir"
)

// MismatchError is the error of loading a program that was compiled for another kind of device, or with tensors that
// exceed the device's limits.
type MismatchError struct {
	Target  string   // the program's target
	Device  string   // Caps.Name
	Gaps    []string // missing capabilities, one line each
	Smaller string   // how to make the program fit, if its size is the only problem
}

// Error says what the device lacks and what the user can do.
func (e *MismatchError) Error() string {
	if e.Smaller != "" {
		return fmt.Sprintf("it is too large for %s, which lacks %s; %s, or run it on the CPU fast path, which has "+
			"no such limit (--device cpu)", e.Device, strings.Join(e.Gaps, "; "), e.Smaller)
	}
	return fmt.Sprintf("it was compiled for %s and does not fit %s, which lacks %s; compile it again on this "+
		"machine with: vkc compile --target auto", e.Target, e.Device, strings.Join(e.Gaps, "; "))
}

// gapList collects the capabilities that a device lacks (gaps), each with the kernels or buffers that need it (users).
type gapList struct {
	gaps     []string
	users    map[string][]string // by gap
	notSizes bool                // whether there are gaps that smaller tensors would not avoid
}

// add adds a gap, described by format and args, and a user of the capability.
func (l *gapList) add(user, format string, args ...any) {
	l.notSizes = true
	l.addSize(user, format, args...)
}

// addSize adds a gap that smaller tensors would avoid, described by format and args, and a user of the capability.
func (l *gapList) addSize(user, format string, args ...any) {
	gap := fmt.Sprintf(format, args...)
	if l.users == nil {
		l.users = map[string][]string{}
	}
	if _, known := l.users[gap]; !known {
		l.gaps = append(l.gaps, gap)
	}
	if !slices.Contains(l.users[gap], user) {
		l.users[gap] = append(l.users[gap], user)
	}
}

// maxUsersNamed is the largest number of users that the message names for a gap.
const maxUsersNamed = 3

// lines returns a line for each gap, with its users.
func (l *gapList) lines() []string {
	var lines []string
	for _, gap := range l.gaps {
		users := l.users[gap]
		more := ""
		if n := len(users) - maxUsersNamed; n > 0 {
			users, more = users[:maxUsersNamed], fmt.Sprintf(" and %d more", n)
		}
		lines = append(lines, fmt.Sprintf("%s (for %s%s)", gap, strings.Join(users, ", "), more))
	}
	return lines
}

// checkFit returns a [*MismatchError] with all capabilities that the program needs and the device lacks, or nil if
// there are none.
func (d *Device) checkFit(p *kernel.Program) error {
	var l gapList
	caps := &d.info.Caps
	for _, step := range p.Dispatches() {
		for _, k := range step.Kernels() {
			l.addShader(caps, &p.Shaders[k.Shader])
		}
		for _, b := range step.Binds {
			l.bind(caps, &p.Buffers[b.Buffer], b.Address)
		}
	}
	for i := range p.Buffers {
		l.addBuffer(caps, &p.Buffers[i])
	}
	if limit := caps.MaxBuffer; uint64(p.ArenaBytes) > limit {
		l.addSize("the temporaries", "allocations of %s (its limit is %s)", formatBytes(uint64(p.ArenaBytes)),
			formatBytes(limit))
	}
	if err := l.addGrids(caps, p); err != nil { // of evaluating a grid; gaps are added to l
		return err
	}
	if len(l.gaps) > 0 {
		e := &MismatchError{Target: p.Target, Device: caps.Name, Gaps: l.lines()}
		if !l.notSizes {
			e.Smaller = p.Smaller()
		}
		return e
	}
	return nil
}

// addShader adds the capabilities that a kernel needs and the device lacks.
func (l *gapList) addShader(caps *device.Caps, s *kernel.Shader) {
	user := "kernel " + s.Name
	for _, feature := range s.Needs {
		if !caps.Has(feature) {
			l.add(user, "feature %s", feature)
		}
	}
	if most := min(caps.MaxInvocations, caps.MaxWorkgroupSize[0]); s.Workgroup > int(most) {
		l.add(user, "workgroups of %d (its limit is %d)", s.Workgroup, most)
	}
	if s.SharedBytes > int(caps.MaxSharedMemory) {
		l.add(user, "%d bytes of shared memory (it has %d)", s.SharedBytes, caps.MaxSharedMemory)
	}
	if s.Bindings > int(caps.MaxStorageBuffers) {
		l.add(user, "%d storage buffers for one kernel (its limit is %d)", s.Bindings, caps.MaxStorageBuffers)
	}
	if n := s.SubgroupSize; n != 0 && !caps.CanRelyOn(n) {
		l.add(user, "subgroups of %d (it has %d to %d)", n, caps.MinSubgroupSize, caps.MaxSubgroupSize)
	}
}

// checkModules checks each module's SPIR-V version and workgroup size against the device. Drivers do not check either.
func (d *Device) checkModules(p *kernel.Program, spirv [][]byte) error {
	limits := d.info.Caps.MaxWorkgroupSize
	for i, code := range spirv {
		if v, most := spv.Version(code), d.info.Caps.API.SPIRV(); v > most {
			return fmt.Errorf("shader %s: it is of SPIR-V 1.%d, and a device of Vulkan %v takes 1.%d at most; compile "+
				"it again on this machine with: vkc compile --target auto", p.Shaders[i].Name, v, d.info.Caps.API, most)
		}
		size, err := spv.Workgroup(code)
		if err != nil {
			return fmt.Errorf("shader %s: %w", p.Shaders[i].Name, err)
		}
		for axis := range size {
			if size[axis] > limits[axis] {
				return fmt.Errorf("shader %s: workgroups of %v, the device's limits are %v",
					p.Shaders[i].Name, size, limits)
			}
		}
	}
	return nil
}

// bind adds a gap if a buffer is too large for a kernel to access, directly or by address.
func (l *gapList) bind(caps *device.Caps, b *kernel.Buffer, byAddress bool) {
	if size := uint64(b.Bytes); size > caps.MaxStorageRange && !byAddress {
		l.addSize(fmt.Sprintf("%s %s", b.Kind, b.Name), "buffers of %s (a kernel can be given %s)", formatBytes(size),
			formatBytes(caps.MaxStorageRange))
	}
}

// addBuffer adds the gaps of a buffer.
func (l *gapList) addBuffer(caps *device.Caps, b *kernel.Buffer) {
	user := fmt.Sprintf("%s %s", b.Kind, b.Name)
	size := uint64(b.Bytes)
	if b.Kind == kernel.BufTemp {
		if a := int64(caps.StorageAlignment); a > 1 && b.Offset%a != 0 {
			l.add(user, "buffers at offsets that are not multiples of %d", a)
		}
		return
	}
	if limit := caps.MaxBuffer; size > limit {
		l.addSize(user, "allocations of %s (its limit is %s)", formatBytes(size), formatBytes(limit))
	}
}

// addGrids adds the gaps of workgroup counts, with all symbols at their bounds, where the counts are largest.
func (l *gapList) addGrids(caps *device.Caps, p *kernel.Program) error {
	for _, step := range p.Dispatches() {
		for _, one := range step.Kernels() {
			counts, err := one.MostGroups()
			if err != nil {
				return fmt.Errorf("step %s: %w", step.Name, err)
			}
			for i, n := range counts {
				if limit := caps.MaxWorkgroupCount[i]; n > limit {
					l.addSize("step "+step.Name, "%d workgroups in %c (its limit is %d)", n, "xyz"[i], limit)
				}
			}
		}
	}
	return nil
}

// checkTotal returns an error if the buffers to be allocated, and copies of states during Load, need more memory than
// the device has free. So Load fails before it reads gigabytes of weights.
func (m *programMemory) checkTotal() error {
	arena, d := uint64(m.program.ArenaBytes), m.device
	copies := m.program.CopiedStates(func(b int) bool { return m.buffers[b].borrowed }) // see keepStates
	need, kinds := arena+copies, map[kernel.BufferKind]uint64{kernel.BufTemp: arena}
	for _, b := range m.buffers {
		if b.Kind != kernel.BufTemp && !b.borrowed && !b.inHost {
			need += uint64(b.Bytes)
			kinds[b.Kind] += uint64(b.Bytes)
		}
	}
	heap, size, used := 0, uint64(0), uint64(0)
	inUse := d.memory.statistics().HeapInUse
	for i, h := range d.info.Heaps {
		if h.DeviceLocal {
			heap, size, used = i, size+h.Size, used+inUse[i]
		}
	}
	all, limit := d.used.use(), d.options.MemoryLimit
	if need <= size-min(used, size) && (limit == 0 || need <= limit-min(all.Total(), limit)) {
		return nil
	}
	available, _ := d.available(heap)
	what := "the program as a whole (" + largestFirst(kinds) + ")"
	if copies > 0 {
		what += fmt.Sprintf(" with %s for copies of states while it is loaded", formatBytes(copies))
	}
	return &OutOfMemoryError{What: what, Requested: need, Heap: heap, HeapSize: size, InUse: used,
		Available: available, Limit: limit, Use: all, Result: ErrorOutOfDeviceMemory}
}

// largestFirst lists kinds of buffers with their sizes in bytes, for messages.
func largestFirst(sizes map[kernel.BufferKind]uint64) string {
	kinds := slices.SortedFunc(maps.Keys(sizes), func(a, b kernel.BufferKind) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, kind := range kinds {
		parts = append(parts, fmt.Sprintf("%s %s", kind, formatBytes(sizes[kind])))
	}
	return strings.Join(parts, ", ")
}

// signedExtents returns the extents of a program's tensors that can be negative, such as T-2 for T=1. Kernels would
// read a negative extent as a very large one, so runs check these.
func signedExtents(p *kernel.Program) []ir.Dim {
	list := slices.Clone(p.Extents)
	for _, b := range p.Buffers {
		for _, d := range b.Shape {
			if d.MayBeNegative() && !slices.Contains(list, d) {
				list = append(list, d)
			}
		}
	}
	return list
}

// checkExtents returns an error if the values of symbols make one of the extents negative.
func checkExtents(signed []ir.Dim, symbols map[string]int64) error {
	for _, d := range signed {
		if v, err := d.Eval(symbols); err != nil || v < 0 {
			return fmt.Errorf("the extent %s of a tensor in the program is negative in this run: want larger values "+
				"of %s", d, strings.Join(d.Symbols(), ", "))
		}
	}
	return nil
}
