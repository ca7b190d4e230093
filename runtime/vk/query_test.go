package vk_test

import (
	"errors"
	"testing"

	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/runtime/vk"
)

func TestTimestamps(t *testing.T) {
	d := vktest.Device(t, vk.DeviceOptions{})
	if d.Caps().TimestampBits == 0 {
		t.Skip("the device takes no timestamps")
	}
	const n = 1 << 18
	x, y := buffer(t, d, "x", 4*n, vk.DeviceMemory), buffer(t, d, "y", 4*n, vk.DeviceMemory)
	stamps := closing(t, must(d.NewTimestamps(5))(t))
	c := d.NewCommandList()
	c.ResetTimestamps(stamps)
	c.BindPipeline(pipeline(t, d, accumulateDesc(t)))
	c.Bind(bindings(t, d, bind(x, y)), 0)
	for i := range 4 {
		c.Timestamp(stamps, i)
		c.Dispatch(n/64, 1, 1)
		c.Barrier(vk.StageCompute, vk.StageCompute)
	}
	run(t, d, record(t, d, c))
	times, err := stamps.Read(0, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range times {
		if i == 0 && times[0] != 0 || i > 0 && times[i] <= times[i-1] {
			t.Errorf("times %v do not start at 0 or do not grow", times)
			break
		}
	}
	if _, err := stamps.Read(4, 1); err == nil {
		t.Error("a slot not written has a time")
	}
	for _, bad := range [][2]int{{-1, 1}, {0, 0}, {0, 6}, {5, 1}, {1, 1 << 62}} {
		if _, err := stamps.Read(bad[0], bad[1]); err == nil {
			t.Errorf("%d slots from %d on are read", bad[1], bad[0])
		}
	}
	for _, count := range []int{0, -1, 1 << 30} {
		if _, err := d.NewTimestamps(count); err == nil {
			t.Errorf("%d slots are made", count)
		}
	}
	stamps.Close()
	if _, err := stamps.Read(0, 1); !errors.Is(err, vk.ErrClosed) {
		t.Errorf("reading closed timestamps: %v", err)
	}
}
