package vk_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

func randomBytes(n int) []byte {
	rng := rand.New(rand.NewPCG(uint64(n), 2))
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(rng.Uint32())
	}
	return out
}

// A ring of 4 slots of 1 KiB, so that small transfers go round it.
const slotBytes = 1024

var transferModes = map[string]vk.DeviceOptions{
	"usual":  {},
	"staged": vk.ForceStaging(vk.DeviceOptions{StagingBytes: 4 * slotBytes}),
}

func TestTransferSizes(t *testing.T) {
	for mode, options := range transferModes {
		t.Run(mode, func(t *testing.T) {
			d := vktest.Device(t, options)
			const offset = 12
			for _, n := range []int{1, 3, 4, 1000, slotBytes - 1, slotBytes, slotBytes + 1, 4 * slotBytes,
				4*slotBytes + 1, 50_001} {
				b := must(d.NewBuffer("b", int64(n)+2*offset, vk.DeviceMemory))(t)
				around := bytes.Repeat([]byte{0xa5}, n+2*offset)
				upload(t, d, b, around)
				data := randomBytes(n)
				if err := d.Upload(context.Background(), b, offset, data); err != nil {
					t.Fatal(err)
				}
				copy(around[offset:], data)
				if got := download(t, d, b); !bytes.Equal(got, around) {
					t.Errorf("%d bytes come back changed", n)
				}
				part := make([]byte, n)
				if err := d.Download(context.Background(), part, b, offset); err != nil || !bytes.Equal(part, data) {
					t.Errorf("%d bytes at offset %d come back changed, %v", n, offset, err)
				}
				b.Close()
			}
			if n := d.Live()["buffer"]; n != 0 {
				t.Errorf("%d buffers are live", n)
			}
		})
	}
}

func TestTransferErrors(t *testing.T) {
	for mode, options := range transferModes {
		t.Run(mode, func(t *testing.T) {
			d, ctx := vktest.Device(t, options), context.Background()
			b := buffer(t, d, "b", 100, vk.DeviceMemory)
			for _, bad := range []struct{ offset, size int64 }{{-1, 10}, {0, 101}, {100, 1}, {91, 10}, {1 << 62, 10}} {
				if err := d.Upload(ctx, b, bad.offset, make([]byte, bad.size)); err == nil {
					t.Errorf("upload of %d bytes at %d succeeds", bad.size, bad.offset)
				}
				if err := d.Download(ctx, make([]byte, bad.size), b, bad.offset); err == nil {
					t.Errorf("download of %d bytes at %d succeeds", bad.size, bad.offset)
				}
			}
			if err := d.Upload(ctx, nil, 0, []byte{1}); err == nil {
				t.Error("upload to no buffer succeeds")
			}
			if err := errors.Join(d.Upload(ctx, b, 100, nil), d.Download(ctx, nil, b, 0)); err != nil {
				t.Errorf("moving nothing fails: %v", err)
			}
			fault := errors.New("disk on fire")
			if err := d.UploadFunc(ctx, b, 0, 100, func([]byte, int64) error { return fault }); !errors.Is(err, fault) {
				t.Errorf("the source's error comes back as %v", err)
			}
			b.Close()
			if err := d.Upload(ctx, b, 0, []byte{1}); !errors.Is(err, vk.ErrClosed) {
				t.Errorf("upload to a closed buffer: %v; want ErrClosed", err)
			}
		})
	}
}

func TestTransferCancel(t *testing.T) {
	for mode, options := range transferModes {
		t.Run(mode, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n = 48 << 20 // several direct chunks too
			b := buffer(t, d, "b", n, vk.DeviceMemory)
			ctx, cancel := context.WithCancel(context.Background())
			calls := 0
			err := d.UploadFunc(ctx, b, 0, n, func(p []byte, _ int64) error {
				if calls++; calls == 2 {
					cancel()
				}
				clear(p)
				return nil
			})
			if !errors.Is(err, context.Canceled) || calls != 2 {
				t.Errorf("an upload cancelled in its second chunk: %v after %d chunks", err, calls)
			}
			if err := d.Download(ctx, make([]byte, 10), b, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("a download with a cancelled context: %v", err)
			}
			// The ring is in order afterwards.
			data := randomBytes(10 * slotBytes)
			upload(t, d, b, data)
			got := make([]byte, len(data))
			if err := d.Download(context.Background(), got, b, 0); err != nil || !bytes.Equal(got, data) {
				t.Errorf("data after a cancelled upload comes back changed, or %v", err)
			}
		})
	}
}

// TestTransferOrder relies on uploads, kernels and downloads taking effect in the order of the calls.
func TestTransferOrder(t *testing.T) {
	for mode, options := range transferModes {
		t.Run(mode, func(t *testing.T) {
			d := vktest.Device(t, options)
			const n = 5000
			a, b := buffer(t, d, "a", 4*n, vk.DeviceMemory), buffer(t, d, "b", 4*n, vk.DeviceMemory)
			c := d.NewCommandList()
			c.BindPipeline(pipeline(t, d, copyDesc(t)))
			c.Bind(bindings(t, d, bind(a, b)), 0)
			c.Dispatch((n+63)/64, 1, 1)
			r := record(t, d, c)
			for round := range 5 {
				data := bytes.Repeat([]byte{byte(round), 1, 2, 3}, n)
				upload(t, d, a, data)
				if _, err := d.Submit(r); err != nil {
					t.Fatal(err)
				}
				upload(t, d, a, make([]byte, 4*n)) // after the kernel has read it
				if !bytes.Equal(download(t, d, b), data) {
					t.Fatalf("round %d: the kernel saw other data than was uploaded before it", round)
				}
			}
		})
	}
}

// TestLateDownload: a download that waits for a late point does not block earlier ones from using the ring.
func TestLateDownload(t *testing.T) {
	d := vktest.Device(t, vk.ForceStaging(vk.DeviceOptions{}))
	const n = 1 << 20
	x, y := buffer(t, d, "x", 4*n, vk.DeviceMemory), buffer(t, d, "y", 4*n, vk.DeviceMemory)
	fill(t, d, x, 1)
	fill(t, d, y, 0)
	r := longRecording(t, d, x, y, 20)
	run(t, d, r)
	// The device may be done before the download waits, so give it more work until it is not.
	for more, seen := 1, false; !seen; more *= 2 {
		if more > 1000 {
			t.Fatalf("with %d runs under way a download waited for none of them", more)
		}
		var before, last vk.Point
		for range more {
			before = must(d.Submit(r))(t)
		}
		last = must(d.Submit(r))(t)
		done := make(chan error)
		go func() { done <- d.DownloadsAfter(context.Background(), x, last) }()
		for d.Waits() == 0 && !d.Downloading() && !d.Done(before) {
			runtime.Gosched()
		}
		has := d.Downloading()
		if seen = !d.Done(before); seen && has {
			t.Error("a download has the ring while the device is not at what it reads")
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func TestMemoryKinds(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	const n = 300
	up, device := buffer(t, d, "up", 4*n, vk.UploadMemory), buffer(t, d, "device", 4*n, vk.DeviceMemory)
	shared, back := buffer(t, d, "shared", 4*n, vk.SharedMemory), buffer(t, d, "back", 4*n, vk.ReadbackMemory)
	for i, b := range []*vk.Buffer{up, shared, back} {
		if int64(len(b.Bytes())) != b.Size() {
			t.Fatalf("the host sees %d of %d bytes of buffer %d", len(b.Bytes()), b.Size(), i)
		}
	}
	data := randomBytes(4 * n)
	copy(up.Bytes(), data)
	c := d.NewCommandList()
	c.CopyBuffer(device, 0, up, 0, 4*n)
	c.Barrier(vk.StageTransfer, vk.StageCompute)
	c.BindPipeline(pipeline(t, d, copyDesc(t)))
	sets := bindings(t, d, bind(device, shared), bind(shared, back))
	c.Bind(sets, 0)
	c.Dispatch((n+63)/64, 1, 1)
	c.Barrier(vk.StageCompute, vk.StageCompute)
	c.Bind(sets, 1)
	c.Dispatch((n+63)/64, 1, 1)
	run(t, d, record(t, d, c))
	if !bytes.Equal(back.Bytes(), data) {
		t.Error("data comes back changed from its way through all kinds of memory")
	}
}

func TestBufferErrors(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	for _, size := range []int64{0, -5} {
		if _, err := d.NewBuffer("b", size, vk.DeviceMemory); err == nil {
			t.Errorf("a buffer of %d bytes is made", size)
		}
	}
	limit := int64(d.Caps().MaxBuffer)
	if _, err := d.NewBuffer("b", limit+1, vk.DeviceMemory); !errors.Is(err, vk.ErrTooLarge) {
		t.Errorf("a buffer beyond the limit: %v; want ErrTooLarge", err)
	}
}

func TestMemoryStats(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{BlockBytes: 1 << 20})
	before := d.MemoryStats()
	var list []*vk.Buffer
	for range 50 {
		list = append(list, must(d.NewBuffer("b", 100_000, vk.DeviceMemory))(t))
	}
	s := d.MemoryStats()
	if s.Allocations != before.Allocations+50 || s.InUse < 5_000_000 || s.Reserved < s.InUse || s.Blocks > 8 {
		t.Errorf("50 buffers of 100000 bytes: %+v", s)
	}
	for _, b := range list {
		b.Close()
	}
	if s := d.MemoryStats(); s.Allocations != before.Allocations || s.InUse != before.InUse || s.Blocks > 1 {
		t.Errorf("after closing them: %+v; was %+v", s, before)
	}
	if d.MemoryAvailable() == 0 {
		t.Error("no memory is available")
	}
}

func TestBufferAddress(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	a, b := buffer(t, d, "a", 64, vk.DeviceMemory), buffer(t, d, "b", 64, vk.DeviceMemory)
	if !d.Caps().Features.BufferDeviceAddress {
		if a.Address() != 0 {
			t.Error("a buffer has an address without the feature")
		}
		return
	}
	if a.Address() == 0 || b.Address() == 0 || a.Address() == b.Address() {
		t.Errorf("addresses %#x and %#x", a.Address(), b.Address())
	}
}
