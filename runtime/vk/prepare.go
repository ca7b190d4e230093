package vk

import (
	"context"
	"runtime"
	"slices"
	"strconv"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"golang.org/x/sync/errgroup"
)

// runPrepared runs the prepared steps: the program's first steps, which depend only on weights and so run once, at
// load. Their results stay in buffers of their own, the prepared weights. It skips steps that are only needed for
// results that are borrowed from another program.
func (rec *recorder) runPrepared(ctx context.Context) {
	steps := rec.unprepared()
	if len(steps) == 0 {
		return
	}
	bailout.Check(rec.device.runOnce(ctx, "preparation of "+rec.program.Name, func(c *CommandList) {
		for n, i := range steps {
			// If steps were skipped, so were their barriers.
			if n > 0 && (rec.program.Steps[i].Barrier || steps[n-1] != i-1) {
				c.Barrier(StageCompute, StageCompute)
			}
			rec.recordStep(c, rec.own.bindings, nil, i)
		}
		c.Barrier(StageCompute, StageCompute) // for the first run, and for copies of prepared weights
		c.Barrier(StageCompute, StageTransfer)
	}))
	bailout.Check(rec.takeFaults())
}

// unprepared returns the indices of the prepared steps that must run, in order: the steps that write prepared weights
// that are not borrowed, and the steps that write the inputs of such steps.
func (m *programMemory) unprepared() (steps []int) {
	wanted := make([]bool, len(m.buffers)) // by buffer: whether its contents are needed
	for i := range m.buffers {
		wanted[i] = m.buffers[i].Kind == kernel.BufPrepared && !m.buffers[i].borrowed
	}
	for i := m.program.Prepared - 1; i >= 0; i-- {
		binds := m.program.Steps[i].Binds
		if !slices.ContainsFunc(binds, func(b kernel.Bind) bool { return b.Write && wanted[b.Buffer] }) {
			continue
		}
		steps = append(steps, i)
		for _, b := range binds {
			wanted[b.Buffer] = wanted[b.Buffer] || b.Read && !m.buffers[b.Buffer].borrowed
		}
	}
	slices.Reverse(steps)
	return steps
}

// contents returns the keys of the prepared weights. The key of a weight is its buffer's ID, because programs with
// equal weights share the buffer. A weight without a buffer has no key.
func (m *programMemory) contents(spirv [][]byte) map[int]kernel.ContentKey {
	return m.program.PreparedContents(spirv, func(b int) string {
		if shared := m.buffers[b].shared; shared != nil {
			return strconv.FormatUint(shared.id, 10)
		}
		return ""
	})
}

// findPrepared borrows prepared weights that another program has computed from the same weights by the same code. The
// caller holds the lock of the device's weight store.
func (m *programMemory) findPrepared(spirv [][]byte) {
	if m.program.Prepared == 0 {
		return
	}
	keys, store := m.contents(spirv), m.device.weights
	store.mu.Lock()
	defer store.mu.Unlock()
	for b, key := range keys {
		if have := store.prepared[key]; have != nil && have.join() {
			m.borrow(&m.buffers[b], have)
		}
	}
	// A step that must run writes all of its outputs, while other programs may read borrowed ones. So none of its
	// outputs may be borrowed. An output that is given back needs more steps, which may have borrowed outputs too.
	for m.giveBack() {
	}
}

// giveBack un-borrows outputs of steps that this program must still run. given reports whether there were any. The
// program keeps its count on the lender's weights until it is closed.
func (m *programMemory) giveBack() (given bool) {
	for _, step := range m.unprepared() {
		for _, bind := range m.program.Steps[step].Binds {
			if b := &m.buffers[bind.Buffer]; bind.Write && b.borrowed && b.Kind == kernel.BufPrepared {
				b.shared, b.borrowed, given = nil, false, true
			}
		}
	}
	return given
}

// addPrepared adds this program's prepared weights to the device's store, so that later loads can borrow them.
func (m *programMemory) addPrepared(spirv [][]byte) {
	if m.program.Prepared == 0 {
		return
	}
	keys, store := m.contents(spirv), m.device.weights
	store.mu.Lock()
	defer store.mu.Unlock()
	for i, key := range keys {
		b := &m.buffers[i]
		if b.borrowed || store.prepared[key] != nil { // the store has it already
			continue
		}
		store.prepared[key] = b.shared
		b.shared.forget = func() {
			store.mu.Lock()
			defer store.mu.Unlock()
			delete(store.prepared, key)
		}
	}
}

const (
	// planeChunk is the number of bytes of a quantized weight that are split into planes at a time (see
	// kernel.PlanesOf). A chunk stays in the CPU's cache while all of its planes are packed, so memory or the file is
	// read once.
	planeChunk = 16 << 20
	// planePiece is the smallest number of bytes of a plane for which another goroutine pays off.
	planePiece = 256 << 10
)

// layOutPlanes converts a weight to planes, as [layOut] does: it splits the blocks as it writes them to staging memory.
// parts has the weight's bytes; each part has whole blocks. layOutPlanes calls put for each range of the buffer, with a
// function that fills the range, and done with the number of bytes converted since the last call.
func layOutPlanes(b *kernel.Buffer, parts [][]byte,
	put func(at, size int64, fill fillFunc) error, done func(n int64)) error {
	size := int64(b.DType.BlockBytes())
	blocks := b.Shape.MaxElems() / int64(b.DType.BlockElems())
	block := int64(0) // index of the next block
	for _, part := range parts {
		for len(part) > 0 {
			n := min(planeChunk/size, int64(len(part))/size)
			chunk := part[:n*size]
			for i, p := range kernel.PlanesOf(b.DType) {
				at := kernel.PlaneBase(b.DType, i, blocks) + block*int64(p.Bytes)
				err := put(at, n*int64(p.Bytes), func(dst []byte, at int64) error {
					return packPlane(dst, b.DType, p, chunk, at)
				})
				if err != nil {
					return err
				}
			}
			done(n * size)
			part, block = part[n*size:], block+n
		}
	}
	done(b.Bytes - blocks*size) // padding between planes
	return nil
}

// packPlane fills dst with the bytes of plane p from position first on, from the blocks src of dtype t, as
// kernel.PackPlane does, but on all cores. src may be part of a mapped file, so it returns the error of reading the
// file.
func packPlane(dst []byte, t ir.DType, p kernel.Plane, src []byte, first int64) error {
	each := max(planePiece, ceil.Div(len(dst), runtime.GOMAXPROCS(0)))
	var pieces errgroup.Group
	for at := 0; at < len(dst); at += each {
		pieces.Go(func() error {
			return mmap.Guard(func() error {
				kernel.PackPlane(dst[at:min(at+each, len(dst))], t, p, src, first+int64(at))
				return nil
			})
		})
	}
	return pieces.Wait()
}
