package vk_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

// program makes everything from scratch, runs it, checks the result and closes everything.
func program(d *vk.Device, accumulate vk.PipelineDesc, worker, n int) (err error) {
	ctx := context.Background()
	var made []closer
	defer func() {
		for _, c := range made {
			err = errors.Join(err, c.Close())
		}
	}()
	var buffers []*vk.Buffer
	for _, v := range []float32{float32(worker), 1} {
		b, err := d.NewBuffer(fmt.Sprint("b", worker), int64(4*n), vk.DeviceMemory)
		if err != nil {
			return err
		}
		made, buffers = append(made, b), append(buffers, b)
		if err := d.Upload(ctx, b, 0, floatBytes(slices.Repeat([]float32{v}, n))); err != nil {
			return err
		}
	}
	p, err := d.NewPipeline(accumulate)
	if err != nil {
		return err
	}
	sets, err := d.NewBindings([]vk.BindingSet{bind(buffers...)})
	if err != nil {
		return err
	}
	made = append(made, p, sets)
	c := d.NewCommandList()
	c.BindPipeline(p)
	c.Bind(sets, 0)
	c.Dispatch(uint32(n+63)/64, 1, 1)
	r, err := d.Record("stress", c)
	if err != nil {
		return err
	}
	made = append(made, r)
	for range 3 {
		if _, err := d.Submit(r); err != nil {
			return err
		}
	}
	got := make([]byte, 4*n)
	if err := d.Download(ctx, got, buffers[1], 0); err != nil {
		return err
	}
	for i, v := range floats(got) {
		if want := float32(1 + 3*worker); v != want {
			return fmt.Errorf("worker %d: element %d of %d is %v; want %v", worker, i, n, v, want)
		}
	}
	return nil
}

// TestStress creates, runs and closes resources of one device from several goroutines, while the garbage collector runs
// all the time.
func TestStress(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	rounds := 40
	if testing.Short() {
		rounds = 4
	}
	d := vktest.Device(t, vk.ForceStaging(vk.DeviceOptions{StagingBytes: 1 << 14, BlockBytes: 1 << 20}))
	accumulate := accumulateDesc(t)
	var workers, collector sync.WaitGroup
	var done atomic.Bool
	collector.Go(func() {
		for !done.Load() {
			runtime.GC()
		}
	})
	for worker := range 4 {
		workers.Go(func() {
			n := 100
			for range rounds {
				if err := program(d, accumulate, worker, n); err != nil {
					t.Error(err)
					return
				}
				n = n*7%20011 + 1
			}
		})
	}
	workers.Wait()
	done.Store(true)
	collector.Wait()
	if err := d.WaitIdle(context.Background()); err != nil {
		t.Error(err)
	}
	if live := d.Live(); len(live) != 0 {
		t.Errorf("still live: %v", live)
	}
	if n := d.Retired(); n != 0 {
		t.Errorf("%d closed resources are still kept", n)
	}
}

// TestOpenCloseRepeatedly checks that an instance leaves nothing behind that affects the next one.
func TestOpenCloseRepeatedly(t *testing.T) {
	for i := range 5 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			d := vktest.Device(t, vk.DeviceOptions{})
			if err := program(d, accumulateDesc(t), i, 1000); err != nil {
				t.Error(err)
			}
		})
	}
}
