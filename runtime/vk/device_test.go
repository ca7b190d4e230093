package vk_test

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

//go:generate glslc --target-env=vulkan1.2 -O -o testdata/copy.spv testdata/copy.comp
//go:generate glslc --target-env=vulkan1.2 -O -o testdata/subgroup.spv testdata/subgroup.comp

//go:embed testdata/*.spv
var shaders embed.FS

func TestMain(m *testing.M) { os.Exit(vktest.Main(m)) }

func shader(t testing.TB, name string) []byte {
	t.Helper()
	code, err := shaders.ReadFile("testdata/" + name + ".spv")
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func accumulateDesc(t testing.TB) vk.PipelineDesc {
	return vk.PipelineDesc{Name: "accumulate", Code: shader(t, "accumulate"), Buffers: 2}
}

func copyDesc(t testing.TB) vk.PipelineDesc {
	return vk.PipelineDesc{Name: "copy", Code: shader(t, "copy"), Buffers: 2}
}

// must returns v, or fails the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

type closer interface{ Close() error }

// closing closes things when the test ends, ahead of the device.
func closing[T closer](t testing.TB, c T) T {
	t.Helper()
	vktest.CloseAfter(t, c)
	return c
}

func buffer(t testing.TB, d *vk.Device, name string, size int64, kind vk.MemoryKind) *vk.Buffer {
	t.Helper()
	return closing(t, must(d.NewBuffer(name, size, kind))(t))
}

func pipeline(t testing.TB, d *vk.Device, desc vk.PipelineDesc) *vk.Pipeline {
	t.Helper()
	return closing(t, must(d.NewPipeline(desc))(t))
}

func bindings(t testing.TB, d *vk.Device, sets ...vk.BindingSet) *vk.Bindings {
	t.Helper()
	return closing(t, must(d.NewBindings(sets))(t))
}

func record(t testing.TB, d *vk.Device, c *vk.CommandList) *vk.Recording {
	t.Helper()
	return closing(t, must(d.Record(t.Name(), c))(t))
}

func bind(buffers ...*vk.Buffer) vk.BindingSet {
	set := vk.BindingSet{Name: "test"}
	for _, b := range buffers {
		set.Buffers = append(set.Buffers, vk.Whole(b))
	}
	return set
}

// floatBytes and floats copy memory. A loop over the elements takes seconds under the race detector.
func floatBytes(values []float32) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), 4*len(values)))
}

func floats(data []byte) []float32 {
	out := make([]float32, len(data)/4)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), 4*len(out)), data)
	return out
}

func download(t testing.TB, d *vk.Device, b *vk.Buffer) []byte {
	t.Helper()
	data := make([]byte, b.Size())
	if err := d.Download(context.Background(), data, b, 0); err != nil {
		t.Fatal(err)
	}
	return data
}

func upload(t testing.TB, d *vk.Device, b *vk.Buffer, data []byte) {
	t.Helper()
	if err := d.Upload(context.Background(), b, 0, data); err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, d *vk.Device, r ...*vk.Recording) {
	t.Helper()
	if err := d.Run(context.Background(), r...); err != nil {
		t.Fatal(err)
	}
}

func TestAccumulate(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 1000 // no multiple of the workgroup size
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(i), float32(-3*i)
	}
	bx, by := buffer(t, d, "x", 4*n, vk.DeviceMemory), buffer(t, d, "y", 4*n, vk.DeviceMemory)
	upload(t, d, bx, floatBytes(x))
	upload(t, d, by, floatBytes(y))
	c := d.NewCommandList()
	c.BindPipeline(pipeline(t, d, accumulateDesc(t)))
	c.Bind(bindings(t, d, bind(bx, by)), 0)
	c.Dispatch((n+63)/64, 1, 1)
	r := record(t, d, c)
	run(t, d, r)
	for i, got := range floats(download(t, d, by)) {
		if want := x[i] + y[i]; got != want {
			t.Fatalf("y[%d] = %v, want %v", i, got, want)
		}
	}
	// The same recording works again on its own results.
	run(t, d, r)
	if got, want := floats(download(t, d, by))[10], float32(10+10-30); got != want {
		t.Errorf("after a second run y[10] = %v, want %v", got, want)
	}
}

func TestOpenDeviceErrors(t *testing.T) {
	inst := vktest.Instance(t)
	for _, index := range []int{-1, len(inst.Devices())} {
		if d, err := inst.OpenDevice(index, vk.DeviceOptions{}); err == nil {
			d.Close()
			t.Errorf("device %d opens", index)
		}
	}
}

func TestProbeIsPlausible(t *testing.T) {
	inst := vktest.Instance(t)
	for _, info := range inst.Devices() {
		c := info.Caps
		if info.Problem != "" {
			continue
		}
		if c.Name == "" || c.SubgroupSize == 0 || c.SubgroupSize&(c.SubgroupSize-1) != 0 ||
			c.MinSubgroupSize > c.SubgroupSize || c.SubgroupSize > c.MaxSubgroupSize {
			t.Errorf("device %d: name %q, subgroup size %d in %d to %d", info.Index, c.Name, c.SubgroupSize,
				c.MinSubgroupSize,
				c.MaxSubgroupSize)
		}
		// Minimums that Vulkan promises.
		if c.MaxSharedMemory < 16384 || c.MaxInvocations < 128 || c.MaxPushConstants < 128 || c.MaxStorageBuffers < 4 ||
			c.MaxStorageRange < 1<<27 || c.MaxAllocation < 1<<30 || c.StorageAlignment > 256 || c.DeviceMemory == 0 {
			t.Errorf("device %d: a limit below Vulkan's minimum: %+v", info.Index, c)
		}
		if len(c.DeviceUUID) != 32 || len(c.DriverUUID) != 32 || len(c.PipelineCacheUUID) != 32 {
			t.Errorf("device %d: UUIDs %q, %q, %q; want 32 hex digits", info.Index, c.DeviceUUID, c.DriverUUID,
				c.PipelineCacheUUID)
		}
		if c.Features.CooperativeMatrix != (len(c.Matrices) > 0) ||
			c.Features.CooperativeMatrix2 != (c.Matrix2 != nil) {
			t.Errorf("device %d: matrix features and shapes disagree", info.Index)
		}
		if len(info.Heaps) == 0 || len(info.MemoryTypes) == 0 || len(info.QueueFamilies) == 0 {
			t.Errorf("device %d lacks heaps, memory types or queues: %+v", info.Index, info)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	b := must(d.NewBuffer("b", 16, vk.DeviceMemory))(t)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.NewBuffer("late", 16, vk.DeviceMemory); !errors.Is(err, vk.ErrClosed) {
		t.Errorf("a buffer on a closed device: %v; want ErrClosed", err)
	}
	if err := d.Upload(context.Background(), b, 0, []byte{1}); !errors.Is(err, vk.ErrClosed) {
		t.Errorf("an upload on a closed device: %v; want ErrClosed", err)
	}
	if _, err := d.Submit(); !errors.Is(err, vk.ErrClosed) {
		t.Errorf("a submission on a closed device: %v; want ErrClosed", err)
	}
	if !d.Done(d.Submitted()) {
		t.Error("a closed device is not done")
	}
}

func TestCloseReportsLeaks(t *testing.T) {
	inst := vktest.Instance(t)
	index, _, err := vk.Choose(inst.Devices(), os.Getenv("VKC_DEVICE"))
	vktest.Need(t, err)
	d := must(inst.OpenDevice(index, vk.DeviceOptions{}))(t)
	b := must(d.NewBuffer("forgotten", 64, vk.DeviceMemory))(t)
	p := must(d.NewPipeline(accumulateDesc(t)))(t)
	set := must(d.NewBindings([]vk.BindingSet{bind(b, b)}))(t)
	c := d.NewCommandList()
	c.FillBuffer(b, 0, 64, 1)
	r := must(d.Record("left", c))(t)
	live := d.Live()
	for _, kind := range []string{"buffer", "pipeline", "bindings", "recording"} {
		if live[kind] != 1 {
			t.Errorf("%d of kind %s are live; want 1 (%v)", live[kind], kind, live)
		}
	}
	err = d.Close()
	if err == nil {
		t.Fatal("closing a device with live resources succeeds")
	}
	for _, want := range []string{"4 things", "buffer forgotten", "pipeline accumulate", "recording left", "bindings"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not name %q", err, want)
		}
	}
	// They were closed with the device: closing them late is harmless.
	for _, c := range []closer{b, p, set, r} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if b.Bytes() != nil {
		t.Error("a closed buffer still has bytes")
	}
}

func TestInstanceCloseReportsDevices(t *testing.T) {
	inst, err := vk.Open()
	vktest.Need(t, err)
	index, _, err := vk.Choose(inst.Devices(), os.Getenv("VKC_DEVICE"))
	if err != nil {
		inst.Close()
	}
	vktest.Need(t, err)
	d := must(inst.OpenDevice(index, vk.DeviceOptions{}))(t)
	if err := inst.Close(); err == nil {
		t.Error("closing an instance with an open device succeeds")
	}
	if err := inst.Close(); err != nil {
		t.Errorf("the second close: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("closing the device late: %v", err)
	}
	if _, err := inst.OpenDevice(0, vk.DeviceOptions{}); !errors.Is(err, vk.ErrClosed) {
		t.Errorf("opening a device of a closed instance: %v; want ErrClosed", err)
	}
}
