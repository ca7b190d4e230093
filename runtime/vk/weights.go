package vk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// weightStore lists the weights and prepared weights on a device, so that programs with equal weights share them. It
// hashes only the beginning of a weight. If a new weight has the hash of a known one, Load reads the known one back
// from the device and compares both in full. So hashing costs little, and no crafted file can pass for another one's
// weights.
type weightStore struct {
	token chan struct{} // a lock, which a load holds while it looks for weights and uploads its own

	mu       sync.Mutex
	known    map[weightKind][]knownWeight
	prepared map[kernel.ContentKey]*sharedBuffer // results of prepared steps
}

// weightKind has the properties in which two weights must agree before their contents are compared.
type weightKind struct {
	dtype  ir.DType
	layout kernel.Layout
	bytes  int64
}

// knownWeight is a weight on the device.
type knownWeight struct {
	head   uint64 // headSum of its contents
	buffer *sharedBuffer
}

// newWeightStore returns an empty store.
func newWeightStore() *weightStore {
	w := &weightStore{token: make(chan struct{}, 1), known: map[weightKind][]knownWeight{},
		prepared: map[kernel.ContentKey]*sharedBuffer{}}
	w.token <- struct{}{}
	return w
}

// lock takes the lock. The returned function releases it, once.
func (w *weightStore) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case <-w.token:
		return sync.OnceFunc(func() { w.token <- struct{}{} }), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("another program is loading its weights: %w", ctx.Err())
	}
}

// ofKind returns the known weights of a kind.
func (w *weightStore) ofKind(kind weightKind) []knownWeight {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.known[kind])
}

// add adds a weight to the store, which removes it when its last user closes it.
func (w *weightStore) add(kind weightKind, k knownWeight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[kind] = append(w.known[kind], k)
	k.buffer.forget = func() { w.remove(kind, k) }
}

// remove removes a weight from the store.
func (w *weightStore) remove(kind weightKind, k knownWeight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[kind] = slices.DeleteFunc(w.known[kind], func(o knownWeight) bool { return o == k })
	if len(w.known[kind]) == 0 {
		delete(w.known, kind)
	}
}

// kindOf returns the kind of a weight.
func kindOf(b *kernel.Buffer) weightKind { return weightKind{b.DType, b.Layout, b.Bytes} }

// headBytes is the number of bytes that headSum hashes, which tells most weights apart.
const headBytes = 64 << 10

// headSeed is random: sums are only compared within this process.
var headSeed = maphash.MakeSeed()

// headSum returns a hash of the first bytes of a weight. parts are the weight's segments.
func headSum(parts [][]byte) (sum uint64, err error) {
	var h maphash.Hash
	h.SetSeed(headSeed)
	err = mmap.Guard(func() error {
		left := headBytes
		for _, part := range parts {
			part = part[:min(left, len(part))]
			h.Write(part) // has no error
			left -= len(part)
		}
		return nil
	})
	return h.Sum64(), err
}

// findWeights borrows the weights that are on the device already. The caller holds the lock of the device's weight
// store.
func (m *programMemory) findWeights(ctx context.Context) {
	for _, b := range m.buffersOf(kernel.BufWeight) {
		if b.borrowed {
			continue
		}
		known := m.device.weights.ofKind(kindOf(b.Buffer))
		if len(known) == 0 {
			continue
		}
		parts := bailout.Must(bundle.WeightBytes(*b.Buffer, m.weights))
		head := bailout.Must(headSum(parts))
		for _, k := range known {
			// join counts this program as a user of the buffer, so that it stays open during the comparison.
			if k.head != head || !k.buffer.join() {
				continue
			}
			same, err := m.device.hasContents(ctx, k.buffer.Buffer, b.Buffer, parts)
			if err == nil && same {
				m.borrow(b, k.buffer)
				break
			}
			// It differs: this program is no user any more.
			bailout.Check(errors.Join(err, k.buffer.Close()))
		}
	}
}

// errDiffers ends the comparison of hasContents.
var errDiffers = errors.New("the contents differ")

// compareChunk is the number of bytes that hasContents reads back at a time, the default size of the staging ring.
const compareChunk = defaultStagingBytes

// hasContents reports whether buffer `have` on the device has the contents of weight b, which is the concatenation of
// parts.
func (d *Device) hasContents(ctx context.Context, have *Buffer, b *kernel.Buffer, parts [][]byte) (bool, error) {
	var want, got []byte
	err := layOut(b, parts, func(at, size int64, fill fillFunc) error {
		for from := int64(0); from < size; from += compareChunk {
			n := min(size-from, compareChunk)
			want, got = slices.Grow(want[:0], int(n))[:n], slices.Grow(got[:0], int(n))[:n]
			if err := fill(want, from); err != nil {
				return err
			}
			if err := d.Download(ctx, got, have, at+from); err != nil {
				return err
			}
			if !bytes.Equal(want, got) {
				return errDiffers
			}
		}
		return nil
	}, func(int64) {})
	if errors.Is(err, errDiffers) {
		return false, nil
	}
	return err == nil, err
}

// uploadWeights uploads the weights and constants that no other program on the device has, and adds them to the
// device's store, where later programs find them.
func (m *programMemory) uploadWeights(ctx context.Context, report reporter) (err error) {
	defer bailout.Caught(&err)
	var done int64
	total := m.stats.Bytes[kernel.BufWeight]
	for _, b := range m.buffersOf(kernel.BufWeight) {
		if b.borrowed {
			continue
		}
		parts := bailout.Must(bundle.WeightBytes(*b.Buffer, m.weights))
		head := bailout.Must(headSum(parts)) // by which later programs find equal weights
		put := func(at, size int64, fill fillFunc) error {
			return m.device.UploadFunc(ctx, b.at.Buffer, at, size, fill)
		}
		bailout.Check(layOut(b.Buffer, parts, put, func(n int64) {
			done += n
			report(runtime.StageWeights, done, total)
		}))
		m.device.weights.add(kindOf(b.Buffer), knownWeight{head: head, buffer: b.shared})
	}
	return nil
}

// layOut converts a weight to the layout that kernels read. parts are the weight's bytes in the file, in segments.
// layOut calls put for each range of the buffer. put takes the range's bytes from fill, in one or more pieces. layOut
// calls done with the size of each piece.
func layOut(b *kernel.Buffer, parts [][]byte, put func(at, size int64, fill fillFunc) error,
	done func(n int64)) error {
	if b.Layout == kernel.LayoutPlanes {
		return layOutPlanes(b, parts, put, done)
	}
	parts = slices.Clone(parts)
	return put(0, b.Bytes, func(p []byte, _ int64) error {
		done(int64(len(p)))
		return mmap.Guard(func() error { parts = drain(p, parts); return nil })
	})
}

// drain fills p with the next bytes of parts, padded with zeros, and returns the rest of parts.
func drain(p []byte, parts [][]byte) [][]byte {
	for len(p) > 0 && len(parts) > 0 {
		n := copy(p, parts[0])
		p = p[n:]
		if n == len(parts[0]) {
			parts = parts[1:]
		} else {
			parts[0] = parts[0][n:]
		}
	}
	clear(p)
	return parts
}

// sharedBuffer is a buffer with a weight, a prepared weight or a state, which several programs may use. The last
// program to close frees it.
type sharedBuffer struct {
	*Buffer
	id     uint64 // unique in this process
	users  atomic.Int32
	forget func() // removes the weight from the device's store; nil if it is not in the store
}

// sharedIDs is the ID of the last sharedBuffer.
var sharedIDs atomic.Uint64

// newShared makes a sharedBuffer with one user, the program that made b.
func newShared(b *Buffer) *sharedBuffer {
	s := &sharedBuffer{Buffer: b, id: sharedIDs.Add(1)}
	s.users.Store(1)
	return s
}

// Close removes a user. The last one closes the buffer.
func (s *sharedBuffer) Close() error {
	if s.users.Add(-1) > 0 {
		return nil
	}
	if s.forget != nil {
		s.forget()
	}
	return s.Buffer.Close()
}

// join adds a user. It returns false if the last user has closed the buffer.
func (s *sharedBuffer) join() bool {
	for {
		n := s.users.Load()
		if n == 0 {
			return false
		}
		if s.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// assign makes s the memory of b. The program is a user of s already; closing the program removes it.
func (m *programMemory) assign(b *buffer, s *sharedBuffer) {
	b.shared, b.at.Buffer = s, s.Buffer
	m.keep(s)
}

// borrow makes s, which another program made, the memory of b, and marks b as borrowed: Load then does not fill it.
func (m *programMemory) borrow(b *buffer, s *sharedBuffer) {
	m.assign(b, s)
	b.borrowed = true
}

// borrowFrom makes the program use the weights that another program has with the same names and layouts, and the states
// that it has with the same names. It takes the other program's lock, which the caller must release.
func (e *Executable) borrowFrom(ctx context.Context, from *Executable) error {
	if e.device != from.device {
		return errors.New("the program to share with is on another device")
	}
	if err := from.lock(ctx); err != nil {
		return fmt.Errorf("share with another program: %w", err)
	}
	for _, b := range e.buffersOf(kernel.BufWeight) {
		if have := from.weightLike(b.Buffer); have != nil {
			have.shared.join() // succeeds: `from` is a user of it, and is open while it is locked
			e.borrow(b, have.shared)
		}
	}
	for _, port := range e.program.States {
		if err := e.borrowState(port, from); err != nil {
			from.unlock()
			return err
		}
	}
	return nil
}

// weightLike returns the program's buffer with the same weights in the same layout as b, or nil.
func (m *programMemory) weightLike(b *kernel.Buffer) *buffer {
	for _, have := range m.buffersOf(kernel.BufWeight) {
		if have.DType == b.DType && have.Layout == b.Layout && have.Bytes == b.Bytes &&
			reflect.DeepEqual(have.Segments, b.Segments) {
			return have
		}
	}
	return nil
}

// borrowState makes program e use a state of program `from`, if that has a state of this name. `from` is locked.
func (e *Executable) borrowState(port kernel.Port, from *Executable) error {
	i, err := from.State(port.Name)
	if err != nil {
		return nil // the state is this program's own
	}
	have := &from.program.States[i]
	if have.DType != port.DType || !have.Shape.Equal(port.Shape) {
		return fmt.Errorf("state %q is %s here and %s in the program that shares it: want equal types", port.Name,
			ir.Type{DType: port.DType, Shape: port.Shape}, ir.Type{DType: have.DType, Shape: have.Shape})
	}
	if e.guarded != from.guarded {
		return fmt.Errorf("state %q is to be shared by a program with guards and one without", port.Name)
	}
	shared := from.buffers[have.Buffer].shared
	shared.join() // succeeds, see borrowFrom
	e.borrow(&e.buffers[port.Buffer], shared)
	e.token = from.token // serialize the programs' runs, since each reads the other's writes
	return nil
}

// keepStates calls do, which runs a dispatch of a step on zeros. It then restores the borrowed states that the step
// writes, from copies. It copies no other states: all of them may take up most of the device's memory.
func (rec *recorder) keepStates(ctx context.Context, step kernel.Step, do func()) {
	var save, restore []bufferCopy
	for _, i := range rec.program.WrittenStates(step) {
		b := &rec.buffers[i]
		if !b.borrowed {
			continue
		}
		state, size := b.at.Buffer, b.at.Buffer.Size()
		saved := bailout.Must(rec.device.NewBuffer("copy of "+b.Name, size, DeviceMemory))
		defer saved.Close()
		save = append(save, bufferCopy{dst: saved, src: state, size: size})
		restore = append(restore, bufferCopy{dst: state, src: saved, size: size})
	}
	if len(save) == 0 {
		do()
		return
	}
	run := func(list []bufferCopy) {
		bailout.Check(rec.device.runOnce(ctx, "copies of states", func(c *CommandList) { c.copyAll(list) }))
	}
	run(save)
	defer run(restore)
	do()
}
