package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/ir"
)

// ErrClosed is wrapped by the errors of using an object after its Close.
var ErrClosed = errors.New("already closed")

// DeviceTensor is a tensor in the memory of a device. A run makes one for each output in RunOptions.Keep, and
// Executable.Upload makes one. A run of any program on the same device can take it as an input (RunOptions.Inputs). Its
// contents do not change. CopyTo copies it to another device through host memory. The device may also be the CPU fast
// path, which keeps tensors in host memory.
//
// All methods may be called concurrently. Close each tensor before its device.
type DeviceTensor struct {
	dtype  ir.DType
	dims   []int
	size   int64
	label  string // names the tensor in errors, such as `output "y" of program "mlp"`
	memory Memory

	mu     sync.Mutex
	users  int // runs and reads in progress; the last one closes the memory of a closed tensor
	closed bool
}

// Memory is a backend's storage for the bytes of a DeviceTensor.
type Memory interface {
	// ReadAt fills p with the bytes from offset on. The caller checks the range.
	ReadAt(ctx context.Context, p []byte, offset int64) error
	// Close frees the memory after all work submitted so far has finished using it.
	Close() error
	// Device names the device of the memory, for people.
	Device() string
}

// NewDeviceTensor is for backends: it makes a tensor backed by memory. Closing the tensor closes the memory. The label
// identifies the tensor in errors.
func NewDeviceTensor(label string, t ir.DType, dims []int, memory Memory) (*DeviceTensor, error) {
	size, err := ir.ByteSize(t, dims)
	if err == nil && memory == nil {
		err = errors.New("it has no memory")
	}
	if err != nil {
		return nil, fmt.Errorf("device tensor %s: %w", label, err)
	}
	return &DeviceTensor{dtype: t, dims: slices.Clone(dims), size: size, label: label, memory: memory}, nil
}

var errNoTensor = errors.New("the device tensor is nil: a run with RunOptions.Keep and Executable.Upload make one, " +
	"unless they return an error")

// none reports whether the tensor is nil or a zero value.
func (t *DeviceTensor) none() bool { return t == nil || t.memory == nil }

// DType is the type of the elements.
func (t *DeviceTensor) DType() ir.DType {
	if t.none() {
		return 0
	}
	return t.dtype
}

// Dims is the shape, outermost axis first.
func (t *DeviceTensor) Dims() []int {
	if t.none() {
		return nil
	}
	return slices.Clone(t.dims)
}

// Size is the size in bytes.
func (t *DeviceTensor) Size() int64 {
	if t.none() {
		return 0
	}
	return t.size
}

// Device names the tensor's device, for people.
func (t *DeviceTensor) Device() string {
	if t.none() {
		return "no device"
	}
	return t.memory.Device()
}

// String describes the tensor without its values, such as `f32[2 3] (output "y" of program "mlp")`.
func (t *DeviceTensor) String() string {
	if t.none() {
		return "no tensor"
	}
	return fmt.Sprintf("%s%v (%s)", t.dtype, t.dims, t.label)
}

// ReadInto copies the whole tensor to d, which must have its type and shape.
func (t *DeviceTensor) ReadInto(ctx context.Context, d *ir.Data) error {
	if t.none() {
		return errNoTensor
	}
	if err := checkOutput(d, t.dtype, t.dims); err != nil {
		return fmt.Errorf("read %v: %w", t, err)
	}
	err := t.ReadBytes(ctx, d.Bytes, 0)
	d.ClearUnused()
	return err
}

// Read returns a copy of the whole tensor.
func (t *DeviceTensor) Read(ctx context.Context) (*ir.Data, error) {
	if t.none() {
		return nil, errNoTensor
	}
	d := &ir.Data{DType: t.dtype, Dims: slices.Clone(t.dims), Bytes: make([]byte, t.size)}
	if err := t.ReadBytes(ctx, d.Bytes, 0); err != nil {
		return nil, err
	}
	d.ClearUnused()
	return d, nil
}

// ReadRows returns a copy of count rows, beginning with row first. Rows are indices of the first axis, so a scalar has
// none. In a vector of quantized blocks, first and count must be multiples of the block size.
func (t *DeviceTensor) ReadRows(ctx context.Context, first, count int) (*ir.Data, error) {
	switch {
	case t.none():
		return nil, errNoTensor
	case len(t.dims) == 0:
		return nil, fmt.Errorf("read rows of %v: a scalar has no rows: use Read", t)
	case first < 0 || count < 0 || first > t.dims[0] || count > t.dims[0]-first:
		return nil, fmt.Errorf("read rows of %v: %d rows from row %d on, and there are %d", t, count, first, t.dims[0])
	}
	rows := func(n int) []int { return append([]int{n}, t.dims[1:]...) } // the dims of n rows
	before := ir.Data{DType: t.dtype, Dims: rows(first)}
	if t.dtype.IsPacked() && before.Elems()%t.dtype.BlockElems() != 0 {
		return nil, fmt.Errorf("read rows of %v: row %d begins within a byte of %d elements: use Read", t, first,
			t.dtype.BlockElems())
	}
	d, err := ir.NewData(t.dtype, rows(count)...)
	if err != nil {
		return nil, fmt.Errorf("read rows of %v: %w", t, err)
	}
	at, err := ir.ByteSize(t.dtype, before.Dims)
	if err != nil {
		return nil, fmt.Errorf("read rows of %v: %w", t, err)
	}
	if err := t.ReadBytes(ctx, d.Bytes, at); err != nil {
		return nil, err
	}
	d.ClearUnused()
	return d, nil
}

// ReadAt implements io.ReaderAt over the tensor's bytes, in row-major order.
func (t *DeviceTensor) ReadAt(p []byte, offset int64) (int, error) {
	if t.none() {
		return 0, errNoTensor
	}
	if offset < 0 {
		return 0, fmt.Errorf("read %v: offset %d", t, offset)
	}
	n := int(min(int64(len(p)), max(t.size-offset, 0)))
	if err := t.ReadBytes(context.Background(), p[:n], offset); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// ReadBytes is for backends: it fills p with the bytes from offset on. The caller checks the range.
func (t *DeviceTensor) ReadBytes(ctx context.Context, p []byte, offset int64) error {
	if err := CheckContext(ctx); err != nil {
		return fmt.Errorf("read %v: %w", t, err)
	}
	if err := t.hold(); err != nil {
		return fmt.Errorf("read %w", err)
	}
	defer t.release()
	if len(p) == 0 {
		return nil
	}
	if err := t.memory.ReadAt(ctx, p, offset); err != nil {
		return fmt.Errorf("read %v: %w", t, err)
	}
	return nil
}

// CopyTo copies the tensor to a program's device. The bytes pass through host memory, a few MiB at a time.
func (t *DeviceTensor) CopyTo(ctx context.Context, program Executable) (*DeviceTensor, error) {
	if err := t.hold(); err != nil {
		return nil, fmt.Errorf("copy %w", err)
	}
	defer t.release()
	c, err := program.UploadFrom(ctx, t.dtype, t.dims, tensorReader{ctx, t})
	if err != nil {
		return nil, fmt.Errorf("copy %v: %w", t, err)
	}
	return c, nil
}

// tensorReader is an io.ReaderAt over a tensor's bytes. Its reads end when ctx does.
type tensorReader struct {
	ctx context.Context
	t   *DeviceTensor
}

// ReadAt implements io.ReaderAt. The caller checks the range.
func (r tensorReader) ReadAt(p []byte, offset int64) (int, error) {
	if err := r.t.ReadBytes(r.ctx, p, offset); err != nil {
		return 0, err
	}
	return len(p), nil
}

// chunk is the largest number of bytes that ReadChunks reads at once.
const chunk = 4 << 20

// ReadChunks is for backends: it reads size bytes in order, a few MiB at a time, and passes each chunk to write.
func ReadChunks(from io.ReaderAt, size int64, write func(p []byte, at int64) error) error {
	p := make([]byte, min(size, chunk))
	for at := int64(0); at < size; at += int64(len(p)) {
		p = p[:min(size-at, int64(len(p)))]
		if n, err := from.ReadAt(p, at); n < len(p) {
			return fmt.Errorf("read %d bytes from %d on, of %d: %w", len(p), at, size, err)
		}
		if err := write(p, at); err != nil {
			return err
		}
	}
	return nil
}

// Close frees the memory. Runs and reads in progress finish first, as if the tensor were open. Closing twice is fine.
func (t *DeviceTensor) Close() error {
	if t.none() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	if t.users > 0 {
		return nil // the last user closes the memory
	}
	return t.memory.Close()
}

// hold counts a user of the memory. The memory stays allocated until the user calls release, even if the tensor is
// closed earlier.
func (t *DeviceTensor) hold() error {
	if t.none() {
		return errNoTensor
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return fmt.Errorf("%v: the tensor is %w: close it after the last use", t, ErrClosed)
	}
	t.users++
	return nil
}

// release ends the use that hold began. The last user of a closed tensor closes its memory.
func (t *DeviceTensor) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	if t.users == 0 && t.closed {
		t.memory.Close() // no caller is left to report an error to, and neither backend returns one
	}
}

// Hold is for backends: it returns the memory of each tensor, by name, and an error if a tensor is nil or closed. The
// memory stays allocated until release is called, even if a tensor is closed before.
func Hold(tensors map[string]*DeviceTensor) (memory map[string]Memory, release func(), err error) {
	if len(tensors) == 0 {
		return nil, func() {}, nil
	}
	memory = make(map[string]Memory, len(tensors))
	held := make([]*DeviceTensor, 0, len(tensors))
	release = func() {
		for _, t := range held {
			t.release()
		}
	}
	for name, t := range tensors {
		if err := t.hold(); err != nil {
			release() // the tensors held so far
			return nil, nil, fmt.Errorf("input %q: %w", name, err)
		}
		held = append(held, t)
		memory[name] = t.memory
	}
	return memory, release, nil
}

// ErrElsewhere is for backends: it returns the error for an input on another device than the program.
func ErrElsewhere(name string, t *DeviceTensor, device string) error {
	return fmt.Errorf("input %q is %v, which lies on another device (%s) than the program (%s): give the program its "+
		"bytes (DeviceTensor.Read), or a copy on its device (DeviceTensor.CopyTo)", name, t, t.Device(), device)
}

// Traffic counts the bytes of tensors copied between the caller's memory and a device.
type Traffic struct {
	// In counts weights, inputs, and writes of states and tensors. Out counts outputs that do not stay on the device,
	// and reads of states and tensors.
	In, Out uint64
}

// Add returns the sum of t and other.
func (t Traffic) Add(other Traffic) Traffic { return Traffic{t.In + other.In, t.Out + other.Out} }
