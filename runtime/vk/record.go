package vk

import (
	"fmt"
	"slices"
)

// Stage is a set of kinds of work that access memory, which a barrier orders.
type Stage uint32

// The stages a barrier can order.
const (
	StageCompute  Stage = 1 << iota // kernels
	StageTransfer                   // copies and fills
	StageIndirect                   // reading the workgroup counts of an indirect dispatch
	StageHost                       // the host, through Buffer.Bytes

	// stageEverything has all stages that this package uses on the device. Vulkan's "all commands" would include
	// graphics.
	stageEverything = StageCompute | StageTransfer | StageIndirect
)

// These are Vulkan's flags for pipeline stages and accesses. They are repeated here so that command lists can be built
// and tested without cgo.
const (
	pipelineIndirect = 0x2
	pipelineCompute  = 0x800
	pipelineTransfer = 0x1000
	pipelineHost     = 0x4000

	accessIndirectRead  = 0x1
	accessShaderRead    = 0x20
	accessShaderWrite   = 0x40
	accessTransferRead  = 0x800
	accessTransferWrite = 0x1000
	accessHostRead      = 0x2000
	accessHostWrite     = 0x4000
)

// stageTable maps each stage to Vulkan's pipeline stage and accesses. For the stages before a barrier only the writes
// count, because reads change nothing.
var stageTable = []struct {
	stage                 Stage
	pipeline, read, write uint64
}{
	{StageCompute, pipelineCompute, accessShaderRead, accessShaderWrite},
	{StageTransfer, pipelineTransfer, accessTransferRead, accessTransferWrite},
	{StageIndirect, pipelineIndirect, accessIndirectRead, 0},
	{StageHost, pipelineHost, accessHostRead, accessHostWrite},
}

// opcode is the code of a command, VKC_OP_* in vkc.h.
type opcode uint64

const (
	opBindPipeline opcode = 1 + iota
	opBindSet
	opDispatch
	opDispatchIndirect
	opBarrier
	opCopy
	opFill
	opTimestamp
	opResetQueries
)

// appendCommand appends a command: a word with opcode and number of operands, then the operands.
func appendCommand(words []uint64, op opcode, operands ...uint64) []uint64 {
	words = append(words, uint64(op)|uint64(len(operands))<<32)
	return append(words, operands...)
}

// barrierWords is the length of a barrier, in words.
const barrierWords = 3

// appendBarrier appends a memory barrier for all buffers. The lower halves of its two operands have Vulkan's stages and
// accesses before the barrier, and the upper halves the ones after it.
func appendBarrier(words []uint64, before, after Stage) []uint64 {
	var stages, access uint64
	for _, row := range stageTable {
		if before&row.stage != 0 {
			stages |= row.pipeline
			access |= row.write
		}
		if after&row.stage != 0 {
			stages |= row.pipeline << 32
			access |= (row.read | row.write) << 32
		}
	}
	return appendCommand(words, opBarrier, stages, access)
}

// appendCopy appends a copy of size bytes from one buffer to another.
func appendCopy(words []uint64, src, dst uint64, srcOffset, dstOffset, size int64) []uint64 {
	return appendCommand(words, opCopy, src, dst, uint64(srcOffset), uint64(dstOffset), uint64(size))
}

// CommandList is a list of commands for a recording. It is plain memory: its methods do not call Vulkan. After an
// error, further commands have no effect, and [Device.Record] returns the error. A list is not safe for concurrent use.
type CommandList struct {
	device *Device
	words  []uint64              // the encoded commands; see appendCommand
	users  map[resource]struct{} // the resources that the commands use
	err    error                 // the first error

	// What the next dispatch uses: a kernel, and the set with index set of bindings.
	pipeline *Pipeline
	bindings *Bindings
	set      int
	// What the commands so far have set on the device, so that only changes are recorded.
	boundPipeline  *Pipeline
	boundLayout    *pipelineLayout // the layout that the set was recorded with
	boundSet       uint64
	writesReadback bool  // whether a command writes memory that the host may read
	stages         Stage // used by the commands so far
	grouped        bool  // whether the recording may become part of a group
}

// NewCommandList starts an empty list.
func (d *Device) NewCommandList() *CommandList {
	c := &CommandList{device: d, users: map[resource]struct{}{}}
	if d == nil {
		c.err = d.checkUsable("record")
	}
	c.words = appendBarrier(nil, stageEverything, stageEverything)
	return c
}

// broken reports whether commands have no effect, because of an earlier error.
func (c *CommandList) broken() bool { return c == nil || c.err != nil }

// fail records an error, unless there is one already.
func (c *CommandList) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("vk: record: "+format, args...)
	}
}

// emit appends a command.
func (c *CommandList) emit(op opcode, operands ...uint64) {
	c.words = appendCommand(c.words, op, operands...)
}

// uses records that the list uses u. It returns false if u is closed.
func (c *CommandList) uses(u resource) bool {
	if u.isClosed() {
		c.fail("%s %w", u.describe(), ErrClosed)
		return false
	}
	c.users[u] = struct{}{}
	return true
}

// BindPipeline sets the kernel of later dispatches. Bindings stay.
func (c *CommandList) BindPipeline(p *Pipeline) {
	if c.broken() {
		return
	}
	if p == nil || p.device != c.device {
		c.fail("a pipeline that is none of this device's")
		return
	}
	if c.uses(p) {
		c.pipeline = p
	}
}

// Bind sets the buffers of later dispatches: the set with index set of b.
func (c *CommandList) Bind(b *Bindings, set int) {
	if c.broken() {
		return
	}
	if b == nil || b.device != c.device || set < 0 || set >= len(b.sets) {
		c.fail("set %d of bindings that are none of this device's or have fewer sets", set)
		return
	}
	if c.uses(b) {
		c.bindings, c.set = b, set
	}
}

// Dispatch runs the bound kernel with x*y*z workgroups.
func (c *CommandList) Dispatch(x, y, z uint32) {
	if c.broken() {
		return
	}
	limit := c.device.info.Caps.MaxWorkgroupCount
	if x == 0 || y == 0 || z == 0 || x > limit[0] || y > limit[1] || z > limit[2] {
		c.fail("kernel %s: %d x %d x %d workgroups; want 1 to %v", c.kernelName(), x, y, z, limit)
	}
	if c.prepareDispatch() {
		c.stages |= StageCompute
		c.emit(opDispatch, uint64(x), uint64(y), uint64(z))
	}
}

// DispatchIndirect runs the bound kernel. The device reads the three workgroup counts, as uint32, from the buffer when
// it executes the command. The counts must be within the device's limits. If one is 0 nothing runs.
func (c *CommandList) DispatchIndirect(counts *Buffer, offset int64) {
	if c.usesBuffer("indirect dispatch", counts, offset, 12, 4) && c.prepareDispatch() {
		c.stages |= StageCompute | StageIndirect
		c.emit(opDispatchIndirect, counts.handle, uint64(offset))
	}
}

// kernelName returns the name of the bound kernel, for errors.
func (c *CommandList) kernelName() string {
	if c.pipeline == nil {
		return "(none bound)"
	}
	return c.pipeline.name
}

// prepareDispatch checks that a kernel and its buffers are bound, and records what has changed since the last dispatch.
// It returns false after an error.
func (c *CommandList) prepareDispatch() bool {
	if c.broken() {
		return false
	}
	if c.pipeline == nil {
		c.fail("dispatch without a pipeline")
		return false
	}
	layout := c.pipeline.layout
	if layout.buffers > 0 && (c.bindings == nil || c.bindings.counts[c.set] != layout.buffers) {
		c.fail("kernel %s wants %d buffers, which are not bound", c.pipeline.name, layout.buffers)
		return false
	}
	c.emitState(layout)
	return true
}

// emitState adds commands for the pipeline and the buffers, as far as they have changed since the last dispatch.
func (c *CommandList) emitState(layout *pipelineLayout) {
	if c.pipeline != c.boundPipeline {
		c.emit(opBindPipeline, c.pipeline.handle)
		c.boundPipeline = c.pipeline
	}
	if layout != c.boundLayout { // sets of another layout are no longer bound
		c.boundLayout, c.boundSet = layout, 0
	}
	if layout.buffers > 0 && c.bindings.sets[c.set] != c.boundSet {
		c.boundSet = c.bindings.sets[c.set]
		c.emit(opBindSet, layout.handle, c.boundSet)
		for _, b := range c.bindings.users[c.set] {
			if c.uses(b) {
				c.written(b)
			}
		}
	}
}

// written records that a command may write b. If the host may read b, the recording then ends with a barrier for the
// host.
func (c *CommandList) written(b *Buffer) {
	if b.kind.readByHost() || b.kind == DeviceMemory && b.piece.block.mapped != nil {
		c.writesReadback = true
	}
}

// usesBuffer records that the list uses size bytes of a buffer from offset on, which must be a multiple of align. If
// the range is invalid, it records an error and returns false.
func (c *CommandList) usesBuffer(doing string, b *Buffer, offset, size, align int64) bool {
	if c.broken() {
		return false
	}
	if err := c.device.checkRange(b, offset, size); err != nil {
		c.fail("%s: %w", doing, err)
		return false
	}
	if offset%align != 0 {
		c.fail("%s: buffer %s: offset %d is not a multiple of %d", doing, b.name, offset, align)
		return false
	}
	return c.uses(b)
}

// Barrier makes the writes of earlier commands in stages `before` visible to later commands in stages `after`, which
// begin only when the earlier ones have ended.
func (c *CommandList) Barrier(before, after Stage) {
	if c.broken() {
		return
	}
	const known = StageCompute | StageTransfer | StageIndirect | StageHost
	if before == 0 || after == 0 || (before|after)&^known != 0 {
		c.fail("barrier from stages %#x to %#x", uint32(before), uint32(after))
		return
	}
	c.words = appendBarrier(c.words, before, after)
}

// CopyBuffer copies size bytes, at least 1. The ranges must not overlap.
func (c *CommandList) CopyBuffer(dst *Buffer, dstOffset int64, src *Buffer, srcOffset, size int64) {
	if c.broken() {
		return
	}
	if size <= 0 {
		c.fail("copy of %d bytes", size)
		return
	}
	if !c.usesBuffer("copy to", dst, dstOffset, size, 1) || !c.usesBuffer("copy from", src, srcOffset, size, 1) {
		return
	}
	if dst == src && dstOffset < srcOffset+size && srcOffset < dstOffset+size {
		c.fail("copy of %d bytes from %d to %d in buffer %s overlaps itself", size, srcOffset, dstOffset, dst.name)
		return
	}
	c.stages |= StageTransfer
	c.words = appendCopy(c.words, src.handle, dst.handle, srcOffset, dstOffset, size)
	c.written(dst)
}

// FillBuffer sets size bytes to copies of value. Offset and size are multiples of 4.
func (c *CommandList) FillBuffer(dst *Buffer, offset, size int64, value uint32) {
	if c.broken() {
		return
	}
	if size <= 0 || size%4 != 0 {
		c.fail("fill of %d bytes; want a multiple of 4", size)
	}
	if c.usesBuffer("fill", dst, offset, size, 4) {
		c.stages |= StageTransfer
		c.emit(opFill, dst.handle, uint64(offset), uint64(size), uint64(value))
		c.written(dst)
	}
}

// ResetTimestamps clears all slots of t. It must come before the first [CommandList.Timestamp] into t.
func (c *CommandList) ResetTimestamps(t *Timestamps) {
	if c.usesTimestamps(t, 0) {
		c.emit(opResetQueries, t.pool, 0, uint64(t.count))
	}
}

// Timestamp stores in slot i the time at which all earlier commands have ended.
func (c *CommandList) Timestamp(t *Timestamps, i int) {
	if c.usesTimestamps(t, i) {
		c.emit(opTimestamp, t.pool, uint64(i))
	}
}

// usesTimestamps records that the list uses slot i of t. If there is no such slot, it records an error and returns
// false.
func (c *CommandList) usesTimestamps(t *Timestamps, i int) bool {
	if c.broken() {
		return false
	}
	if t == nil || t.device != c.device || i < 0 || i >= t.count {
		c.fail("timestamp %d of timestamps that are none of this device's or fewer", i)
		return false
	}
	return c.uses(t)
}

// Recording is a recorded command list. It may be submitted any number of times.
type Recording struct {
	object
	name         string
	pool, buffer uint64
	users        []resource
	version      int  // number of times that it has been recorded
	hostNext     bool // whether the host must act after it, before later recordings are submitted

	// For recordings that may be in groups.
	words          []uint64 // the commands without the first and the last barrier; nil for other recordings
	writesReadback bool
	stages         Stage
	groups         []*group // the groups that end with it; guarded by the device's queue lock
}

// Record makes a recording of a list. The list may be extended or discarded afterwards.
func (d *Device) Record(name string, c *CommandList) (*Recording, error) {
	if err := d.checkUsable("record " + name); err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("vk: record %s: there is no command list", name)
	}
	if c.err != nil {
		return nil, c.err
	}
	if c.device != d {
		return nil, fmt.Errorf("vk: record %s: the list is of another device", name)
	}
	pool, buffer, r := d.native.createCommands(kernelQueue)
	if err := d.checkResult(r, "create commands for %s", name); err != nil {
		return nil, err
	}
	rec := &Recording{object: object{device: d, owned: [2]handle{{objectCommandPool, pool}}}, name: name, pool: pool,
		buffer: buffer}
	if err := rec.record(c); err != nil {
		d.native.destroy(objectCommandPool, pool)
		return nil, err
	}
	d.adopt(rec)
	return rec, nil
}

// record replaces the commands of a recording. The device must not be executing it.
func (r *Recording) record(c *CommandList) error {
	if c.err != nil {
		return c.err
	}
	d := r.device
	if err := d.checkResult(d.native.record(r.pool, r.buffer, c.finished(), false), "record %s", r.name); err != nil {
		return err
	}
	r.version++
	r.users, r.words = r.users[:0], nil
	for u := range c.users {
		r.users = append(r.users, u)
	}
	if c.grouped && len(c.words) <= maxGroupWords {
		// The barrier at the beginning is left out, because a group has its own barriers between members.
		r.words, r.writesReadback, r.stages = slices.Clone(c.words[barrierWords:]), c.writesReadback, c.stages
	}
	return nil
}

// finished returns the commands, with a barrier for the host's reads at the end if needed. It does not change the list.
func (c *CommandList) finished() []uint64 {
	if !c.writesReadback {
		return c.words
	}
	return appendBarrier(c.words[:len(c.words):len(c.words)], stageEverything, StageHost)
}

// checkReady returns an error unless the recording and every resource that it uses are open.
func (r *Recording) checkReady(d *Device) error {
	if r == nil || r.device != d {
		return fmt.Errorf("vk: submit: a recording that is none of this device's")
	}
	if r.closed.Load() {
		return fmt.Errorf("vk: submit: recording %s %w", r.name, ErrClosed)
	}
	for _, u := range r.users {
		if u.isClosed() {
			return fmt.Errorf("vk: submit %s: %s %w", r.name, u.describe(), ErrClosed)
		}
	}
	return nil
}

// Close frees the recording after the work submitted so far has finished. Closing twice is fine.
func (r *Recording) Close() error {
	if r == nil || r.closed.Swap(true) { // from now on no group of recordings ends with it
		return nil
	}
	r.device.queue.Lock()
	groups := r.groups
	r.groups = nil
	r.device.queue.Unlock()
	for _, g := range groups {
		_ = g.whole.Close()
	}
	r.device.retire(r)
	return nil
}

func (r *Recording) describe() string { return "recording " + r.name }
