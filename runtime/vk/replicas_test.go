package vk_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// TestReplicas counts replays in a state that every copy adds its own input to: a replay too many or too
// few, or a copy without its input, gives another sum.
func TestReplicas(t *testing.T) {
	const n, batches, replays, copies = 300, 3, 5, 4
	for name, options := range placements {
		t.Run(name, func(t *testing.T) {
			d := vktest.Device(t, options)
			e := counter(t, n).load(d)
			x := ramp(1, n)
			runProgram(t, e, inputs(x), runtime.RunOptions{})
			live := d.Live()["buffer"]
			r := must(e.Replicate(context.Background(), copies))(t)
			if got, want := d.Live()["buffer"]-live, 2*(copies-1); got != want {
				t.Errorf("%d copies have %d more buffers; want %d: an input and an output each", copies, got, want)
			}
			b := must(r.Burst(batches, replays))(t)
			if b.Replays() != batches*replays {
				t.Errorf("%d replays", b.Replays())
			}
			for range 2 {
				must(b.Submit())(t)
			}
			if err := d.WaitIdle(context.Background()); err != nil {
				t.Fatal(err)
			}
			expect(t, "state", must(e.ReadState("sum"))(t), scaled(x, 1+2*batches*replays))
			times := must(b.Times())(t)
			if len(times) != batches {
				t.Fatalf("times %v", times)
			}
			for _, took := range times {
				if took <= 0 {
					t.Errorf("times %v", times)
				}
			}
			b.Close()
			r.Close()
			if got := d.Live()["buffer"]; got != live {
				t.Errorf("%d buffers are open after Close; there were %d", got, live)
			}
		})
	}
}

func TestReplicasRefuse(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	e := chain(t, 64).load(d)
	for _, copies := range []int{-1, 0, 1 << 20} {
		if _, err := e.Replicate(context.Background(), copies); err == nil ||
			!strings.Contains(err.Error(), "copies; want 1 to") {
			t.Errorf("%d copies: %v", copies, err)
		}
	}
	r := must(e.Replicate(context.Background(), 1))(t)
	defer r.Close()
	for _, shape := range [][2]int{{0, 1}, {1, 0}, {-1, -1}, {1 << 40, 1 << 40}, {1 << 10, 1 << 10}} {
		if _, err := r.Burst(shape[0], shape[1]); err == nil || !strings.Contains(err.Error(), "want at most") {
			t.Errorf("burst of %v: %v", shape, err)
		}
	}
}
