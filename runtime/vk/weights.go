package vk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

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
