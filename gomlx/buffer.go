package gomlx

import (
	"cmp"
	"context"
	"runtime"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pkg/errors"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/ir"
)

// storage has the elements of a tensor. They are in host memory, on the device, in a state of a program, or in several
// of these, and they do not change. Buffers and values of a running computation may share a storage; the last of them
// to close it frees it.
type storage struct {
	backend *Backend
	dims    []int

	mu     sync.Mutex
	uses   int // besides the first one
	closed bool
	host   *ir.Data
	device *vkc.DeviceTensor
	state  *program // has the elements in its state called name
	name   string
}

// onHost returns the storage of values.
func (b *Backend) onHost(d *ir.Data) *storage { return &storage{backend: b, dims: d.Dims, host: d} }

// onDevice returns the storage of a device tensor. Backend.Finalize closes all open storages.
func (b *Backend) onDevice(t *vkc.DeviceTensor) *storage {
	s := &storage{backend: b, dims: t.Dims(), device: t}
	b.tensors.Store(s, nil)
	return s
}

// inRun is the size in bytes of the largest tensor that each run uploads as a host input. A larger tensor is uploaded
// once and stays on the device. Runs with only small host inputs do not block.
const inRun = 64 << 10

// forRun returns the elements as an input of a run: a device tensor if there is one or if they are large, else host
// data. An upload replaces the host data.
func (s *storage) forRun(ctx context.Context, on *vkc.Executable) (
	device *vkc.DeviceTensor, host *ir.Data, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.device != nil {
		return s.device, nil, nil
	}
	if s.host == nil {
		host, err := s.state.executable.ReadState(s.name)
		if err != nil {
			return nil, nil, err
		}
		s.host = host
	}
	if len(s.host.Bytes) <= inRun {
		return nil, s.host, nil
	}
	device, err = on.Upload(ctx, s.host)
	if err != nil {
		return nil, nil, err
	}
	s.device, s.host = device, nil
	s.backend.tensors.Store(s, nil)
	return s.device, nil, nil
}

// read copies the elements to host memory of their size.
func (s *storage) read(to []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.host != nil:
		copy(to, s.host.Bytes)
	case s.device != nil && len(to) > 0:
		_, err := s.device.ReadAt(to, 0)
		return err
	case s.state != nil:
		d, err := s.state.executable.ReadState(s.name)
		if err != nil {
			return err
		}
		copy(to, d.Bytes)
	}
	return nil
}

// leaveState detaches the storage from p's state, which p is about to overwrite. It first copies the elements to the
// host, unless they exist elsewhere. It also skips the copy if the storage has at most `others` users, because the
// caller knows that these do not need the elements.
func (s *storage) leaveState(p *program, others int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != p {
		return nil
	}
	if s.host == nil && s.device == nil && !s.closed && s.uses+1 > others {
		d, err := p.executable.ReadState(s.name)
		if err != nil {
			return err
		}
		s.host = d
	}
	s.state = nil
	return nil
}

// share adds an owner. Each owner calls close once.
func (s *storage) share() *storage {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses++
	return s
}

// close ends the use by one owner. The memory is freed with the last one: uses counts the owners after the first, so it
// is negative then.
func (s *storage) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses--
	if s.uses >= 0 || s.closed {
		return nil
	}
	s.closed, s.host = true, nil
	if s.device == nil {
		return nil
	}
	s.backend.tensors.Delete(s)
	return s.device.Close()
}

// Buffer is a tensor of the backend. It is immutable, so computations may share it.
type Buffer struct {
	backend *Backend
	shape   shapes.Shape
	store   *storage
	freed   runtime.Cleanup

	mu       sync.Mutex
	finished bool
}

var _ compute.Buffer = (*Buffer)(nil)

// newBuffer makes a buffer that takes over one reference to a storage. A buffer that is not finalized is freed by the
// garbage collector.
func newBuffer(b *Backend, t dtypes.DType, s *storage) *Buffer {
	buf := &Buffer{backend: b, shape: shapes.Make(t, s.dims...), store: s}
	buf.freed = runtime.AddCleanup(buf, func(s *storage) { _ = s.close() }, s)
	return buf
}

// held returns the buffer's storage with a reference that the caller must close. With donate the buffer gives up its
// own reference, and cannot be used any more. held returns an error if the buffer or its backend is finalized.
func (buf *Buffer) held(donate bool) (*storage, error) {
	buf.mu.Lock()
	defer buf.mu.Unlock()
	switch {
	case buf.finished:
		return nil, errors.Errorf("the buffer of shape %s is finalized, or was donated to a computation", buf.shape)
	case buf.backend.IsFinalized():
		return nil, errors.Errorf("the backend of the buffer of shape %s is finalized", buf.shape)
	}
	if donate {
		buf.finished = true
		buf.freed.Stop()
		return buf.store, nil
	}
	return buf.store.share(), nil
}

// Backend implements compute.Buffer: it returns the backend that the buffer belongs to.
func (buf *Buffer) Backend() compute.Backend { return buf.backend }

// Finalize implements compute.Buffer: it gives up the buffer's elements. Their memory is freed when no other buffer or
// run uses them. Later calls do nothing.
func (buf *Buffer) Finalize() error {
	buf.mu.Lock()
	defer buf.mu.Unlock()
	if buf.finished {
		return nil
	}
	buf.finished = true
	buf.freed.Stop()
	return buf.store.close()
}

// Shape implements compute.Buffer: it returns the buffer's dtype and extents.
func (buf *Buffer) Shape() (shapes.Shape, error) { return buf.shape, nil }

// DeviceNum implements compute.Buffer: it returns 0, the number of the only device.
func (buf *Buffer) DeviceNum() (compute.DeviceNum, error) { return 0, nil }

// ToFlatData implements compute.Buffer: it copies the elements to flat, a slice of the dtype's Go type, in row-major
// order. It waits for the computation that makes the buffer.
func (buf *Buffer) ToFlatData(flat any) error {
	to, err := bytesOf(flat, buf.shape)
	if err != nil {
		return err
	}
	s, err := buf.held(false)
	if err != nil {
		return err
	}
	err = s.read(to)
	return cmp.Or(err, s.close())
}

// Data implements compute.Buffer: it returns compute.ErrNotImplemented, because buffers are not shared with the host.
func (buf *Buffer) Data() (any, error) {
	return nil, errors.Wrapf(compute.ErrNotImplemented, "Buffer.Data in backend %s: see Backend.HasSharedBuffers", Name)
}

// CopyToDevice implements compute.Buffer: it returns another buffer with the same elements, which both share. The
// device must be number 0.
func (buf *Buffer) CopyToDevice(device compute.DeviceNum) (compute.Buffer, error) {
	if err := buf.backend.check(device); err != nil {
		return nil, err
	}
	s, err := buf.held(false)
	if err != nil {
		return nil, err
	}
	return newBuffer(buf.backend, buf.shape.DType, s), nil
}
