package vk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

func TestRecordErrors(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	other := vktest.Device(t, vk.DeviceOptions{})
	b := buffer(t, d, "b", 64, vk.DeviceMemory)
	closed := buffer(t, d, "closed", 64, vk.DeviceMemory)
	closed.Close()
	q := pipeline(t, d, copyDesc(t))
	sets := bindings(t, d, bind(b, b), bind(b))
	foreign := buffer(t, other, "foreign", 64, vk.DeviceMemory)
	limit := d.Caps().MaxWorkgroupCount

	tests := []struct {
		name, want string
		build      func(c *vk.CommandList)
	}{
		{"no pipeline", "without a pipeline", func(c *vk.CommandList) { c.Dispatch(1, 1, 1) }},
		{"nil pipeline", "none of this device's", func(c *vk.CommandList) { c.BindPipeline(nil) }},
		{"no bindings", "wants 2 buffers", func(c *vk.CommandList) { c.BindPipeline(q); c.Dispatch(1, 1, 1) }},
		{"too few bindings", "wants 2 buffers", func(c *vk.CommandList) { c.BindPipeline(q); c.Bind(sets, 1); c.Dispatch(1, 1, 1) }},
		{"no such set", "set 2", func(c *vk.CommandList) { c.Bind(sets, 2) }},
		{"empty grid", "0 x 1 x 1", func(c *vk.CommandList) { c.Dispatch(0, 1, 1) }},
		{"grid too large", "kernel copy", func(c *vk.CommandList) {
			c.BindPipeline(q)
			c.Bind(sets, 0)
			c.Dispatch(1, limit[1]+1, 1)
		}},
		{"indirect past the end", "56+12", func(c *vk.CommandList) { c.DispatchIndirect(b, 56) }},
		{"indirect unaligned", "multiple of 4", func(c *vk.CommandList) { c.DispatchIndirect(b, 2) }},
		{"copy past the end", "outside buffer b", func(c *vk.CommandList) { c.CopyBuffer(b, 60, b, 0, 5) }},
		{"copy of nothing", "0 bytes", func(c *vk.CommandList) { c.CopyBuffer(b, 0, b, 32, 0) }},
		{"copy over itself", "overlaps", func(c *vk.CommandList) { c.CopyBuffer(b, 0, b, 10, 12) }},
		{"fill unaligned", "multiple of 4", func(c *vk.CommandList) { c.FillBuffer(b, 1, 4, 0) }},
		{"fill of a part", "multiple of 4", func(c *vk.CommandList) { c.FillBuffer(b, 0, 5, 0) }},
		{"no buffer", "no buffer", func(c *vk.CommandList) { c.FillBuffer(nil, 0, 4, 0) }},
		{"closed buffer", "closed", func(c *vk.CommandList) { c.FillBuffer(closed, 0, 4, 0) }},
		{"another device's buffer", "another device", func(c *vk.CommandList) { c.FillBuffer(foreign, 0, 4, 0) }},
		{"barrier from nowhere", "barrier", func(c *vk.CommandList) { c.Barrier(0, vk.StageCompute) }},
		{"barrier to the unknown", "barrier", func(c *vk.CommandList) { c.Barrier(vk.StageCompute, 1<<20) }},
		{"no timestamps", "timestamp", func(c *vk.CommandList) { c.Timestamp(nil, 0) }},
		{"the first error counts", "0 x 1 x 1", func(c *vk.CommandList) { c.Dispatch(0, 1, 1); c.FillBuffer(nil, 0, 4, 0) }},
		{"malformed words", "malformed", func(c *vk.CommandList) { c.EmitRaw(99) }},
		{"operands missing", "malformed", func(c *vk.CommandList) { c.EmitRaw(3|3<<32, 1, 1) }},
		{"too few operands", "malformed", func(c *vk.CommandList) { c.EmitRaw(3|2<<32, 1, 1) }},
	}
	for _, test := range tests {
		c := d.NewCommandList()
		test.build(c)
		r, err := d.Record(test.name, c)
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v; want one that says %q", test.name, err, test.want)
		}
	}
	if _, err := other.Record("foreign", d.NewCommandList()); err == nil {
		t.Error("a list of another device is recorded")
	}
}

func TestBindingErrors(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	b := buffer(t, d, "b", 1024, vk.DeviceMemory)
	foreign := buffer(t, vktest.Device(t, vk.DeviceOptions{}), "foreign", 64, vk.DeviceMemory)
	closed := buffer(t, d, "closed", 64, vk.DeviceMemory)
	closed.Close()
	tests := map[string]struct {
		r    vk.BufferRange
		want string
	}{
		"no buffer":        {vk.BufferRange{}, "no buffer"},
		"foreign":          {vk.Whole(foreign), "another device"},
		"closed":           {vk.Whole(closed), "closed"},
		"past the end":     {vk.BufferRange{Buffer: b, Offset: 256, Size: 769}, "outside"},
		"offset past end":  {vk.BufferRange{Buffer: b, Offset: 2048}, "outside"},
		"empty":            {vk.BufferRange{Buffer: b, Offset: 1024}, "empty"},
		"negative":         {vk.BufferRange{Buffer: b, Offset: -256, Size: 4}, "outside"},
		"unaligned offset": {vk.BufferRange{Buffer: b, Offset: 2, Size: 4}, "multiple"},
	}
	for name, test := range tests {
		set := vk.BindingSet{Name: "softmax", Buffers: []vk.BufferRange{vk.Whole(b), test.r}}
		_, err := d.NewBindings([]vk.BindingSet{set})
		if err == nil || !strings.Contains(err.Error(), test.want) ||
			!strings.Contains(err.Error(), "kernel softmax, binding 1") {
			t.Errorf("%s: error %v; want one that says %q and where", name, err, test.want)
		}
	}
	if limit := d.Caps().MaxStorageRange; limit < 1<<29 {
		large := buffer(t, d, "large", int64(limit)+4096, vk.DeviceMemory)
		if _, err := d.NewBindings([]vk.BindingSet{bind(large)}); !errors.Is(err, vk.ErrTooLarge) {
			t.Errorf("a range beyond the limit: %v; want ErrTooLarge", err)
		}
	}
	none := must(d.NewBindings(nil))(t)
	none.Close()
}

// TestBindingOffsets has one kernel work on parts of a single buffer.
func TestBindingOffsets(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	b := buffer(t, d, "b", 4096, vk.DeviceMemory)
	data := randomBytes(4096)
	upload(t, d, b, data)
	c := d.NewCommandList()
	c.BindPipeline(pipeline(t, d, copyDesc(t)))
	c.Bind(bindings(t, d, vk.BindingSet{Buffers: []vk.BufferRange{
		{Buffer: b, Offset: 1024, Size: 512}, {Buffer: b, Offset: 2048, Size: 256},
	}}), 0)
	c.Dispatch(2, 1, 1)
	run(t, d, record(t, d, c))
	copy(data[2048:2048+256], data[1024:])
	if !bytes.Equal(download(t, d, b), data) {
		t.Error("the kernel did not keep to its ranges")
	}
}

func TestDispatchIndirect(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 64 * 10
	src, dst := buffer(t, d, "src", 4*n, vk.DeviceMemory), buffer(t, d, "dst", 4*n, vk.DeviceMemory)
	counts := buffer(t, d, "counts", 64, vk.SharedMemory)
	data := randomBytes(4 * n)
	upload(t, d, src, data)
	c := d.NewCommandList()
	c.FillBuffer(dst, 0, 4*n, 0)
	c.Barrier(vk.StageTransfer, vk.StageCompute)
	c.BindPipeline(pipeline(t, d, copyDesc(t)))
	c.Bind(bindings(t, d, bind(src, dst)), 0)
	c.DispatchIndirect(counts, 16)
	r := record(t, d, c)
	for _, groups := range []uint32{3, 0, 10} {
		for i, v := range []uint32{groups, 1, 1} {
			binary.LittleEndian.PutUint32(counts.Bytes()[16+4*i:], v)
		}
		run(t, d, r)
		want := make([]byte, 4*n)
		copy(want, data[:groups*256])
		if !bytes.Equal(download(t, d, dst), want) {
			t.Errorf("%d workgroups wrote something else", groups)
		}
	}
	// Counts written on the device.
	c = d.NewCommandList()
	c.FillBuffer(counts, 16, 12, 1)
	c.FillBuffer(dst, 0, 4*n, 0)
	c.Barrier(vk.StageTransfer, vk.StageIndirect|vk.StageCompute)
	c.BindPipeline(pipeline(t, d, copyDesc(t)))
	c.Bind(bindings(t, d, bind(src, dst)), 0)
	c.DispatchIndirect(counts, 16)
	run(t, d, record(t, d, c))
	want := make([]byte, 4*n)
	copy(want, data[:256])
	if !bytes.Equal(download(t, d, dst), want) {
		t.Error("counts written by the device are not obeyed")
	}
}

// TestStateBetweenDispatches switches pipelines with different layouts, and sets.
func TestStateBetweenDispatches(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 64
	x, y, z := buffer(t, d, "x", 4*n, vk.DeviceMemory), buffer(t, d, "y", 4*n, vk.DeviceMemory), buffer(t, d,
		"z", 4*n, vk.DeviceMemory)
	ones := make([]float32, n)
	for i := range ones {
		ones[i] = 1
	}
	upload(t, d, x, floatBytes(ones))
	upload(t, d, y, make([]byte, 4*n))
	upload(t, d, z, make([]byte, 4*n))
	accumulate, copies := pipeline(t, d, accumulateDesc(t)), pipeline(t, d, copyDesc(t))
	add := pipeline(t, d, vk.PipelineDesc{Name: "add", Code: shader(t, "add"), Buffers: 3})
	sets := bindings(t, d, bind(x, y), bind(y, z), bind(x, y, z))
	c := d.NewCommandList()
	step := func(p *vk.Pipeline, set int) {
		c.BindPipeline(p)
		c.Bind(sets, set)
		c.Dispatch(1, 1, 1)
		c.Barrier(vk.StageCompute, vk.StageCompute)
	}
	step(accumulate, 0) // y = 1
	step(accumulate, 0) // y = 2
	step(copies, 1)     // z = 2
	step(accumulate, 0) // y = 3
	step(add, 2)        // z = 4
	step(accumulate, 1) // z = 7
	run(t, d, record(t, d, c))
	if got := floats(download(t, d, y))[n-1]; got != 3 {
		t.Errorf("y = %v; want 3", got)
	}
	if got := floats(download(t, d, z))[n-1]; got != 7 {
		t.Errorf("z = %v; want 7", got)
	}
}
