package vk

import (
	"fmt"
	"math"
	"time"
)

// Timestamps is an array of slots in which commands store the device's time.
type Timestamps struct {
	object
	pool  uint64
	count int
}

// NewTimestamps makes count slots.
func (d *Device) NewTimestamps(count int) (*Timestamps, error) {
	if err := d.checkUsable("make timestamps"); err != nil {
		return nil, err
	}
	if count <= 0 || count > 1<<20 {
		return nil, fmt.Errorf("vk: %d timestamps; want 1 to %d", count, 1<<20)
	}
	if d.info.Caps.TimestampBits == 0 {
		return nil, fmt.Errorf("vk: device %s takes no timestamps", d.info.Caps.Name)
	}
	pool, r := d.native.createQueryPool(count)
	if err := d.checkResult(r, "create %d timestamps", count); err != nil {
		return nil, err
	}
	t := &Timestamps{object: object{device: d, owned: [2]handle{{objectQueryPool, pool}}}, pool: pool, count: count}
	d.adopt(t)
	return t, nil
}

// Read returns the times in slots first to first+count-1, relative to the time in slot first. Wait for the recordings
// that write the slots before. It returns an error if a slot has not been written.
func (t *Timestamps) Read(first, count int) ([]time.Duration, error) {
	ticks, err := t.Ticks(first, count)
	if err != nil {
		return nil, err
	}
	caps := &t.device.info.Caps
	times := make([]time.Duration, count)
	for i := range times {
		times[i] = tickDuration(ticks[0], ticks[i], caps.TimestampBits, caps.TimestampPeriod)
	}
	return times, nil
}

// Ticks returns the values of the device's clock at count timestamps from first on, for [Clock.At]. It does not wait:
// it returns an error if a timestamp has not been written.
func (t *Timestamps) Ticks(first, count int) ([]uint64, error) {
	if t == nil || t.closed.Load() {
		return nil, fmt.Errorf("vk: read timestamps: %w", ErrClosed)
	}
	if first < 0 || count <= 0 || first > t.count-count {
		return nil, fmt.Errorf("vk: read timestamps %d to %d+%d: there are %d", first, first, count, t.count)
	}
	pairs, r := t.device.native.queryResults(t.pool, first, count)
	if err := t.device.checkResult(r, "read timestamps"); err != nil {
		return nil, err
	}
	// A pair is a timestamp, and whether the device has written it.
	ticks := make([]uint64, count)
	for i := range ticks {
		if pairs[2*i+1] == 0 {
			return nil, fmt.Errorf("vk: timestamp %d has not been written", first+i)
		}
		ticks[i] = pairs[2*i]
	}
	return ticks, nil
}

// tickDuration returns the time from one value of the device's clock to another. The clock has the given number of bits
// and wraps around. Of the two possible times, tickDuration returns the shorter one, which may be negative. period is
// the time of a tick in nanoseconds.
func tickDuration(from, to uint64, bits uint32, period float32) time.Duration {
	shift := 64 - min(bits, 64)
	ticks := int64((to-from)<<shift) >> shift // the lowest bits of the difference, as a signed number
	return time.Duration(math.Round(float64(ticks) * float64(period)))
}

// Close frees the slots after the work submitted so far has finished. Closing twice is fine.
func (t *Timestamps) Close() error { return closeOnce(t) }

func (t *Timestamps) describe() string { return fmt.Sprintf("timestamps (%d)", t.count) }

// Clock relates times on the device to times on the host: ticks and host are the same moment.
type Clock struct {
	ticks  uint64
	host   time.Time
	bits   uint32  // valid bits of the device's timestamps
	period float32 // of a tick, in nanoseconds
	// Deviation is the largest possible error of the relation.
	Deviation time.Duration
}

// clockTries is the number of readings that Calibrate takes. It keeps the one with the smallest deviation.
const clockTries = 4

// Calibrate relates the device's clock to the host's. It reports false on a device without
// VK_KHR_calibrated_timestamps. The clocks drift apart, so use the relation only for times within seconds.
func (d *Device) Calibrate() (Clock, bool) {
	if d.checkUsable("calibrate") != nil || d.info.Caps.TimestampBits == 0 {
		return Clock{}, false
	}
	best := Clock{bits: d.info.Caps.TimestampBits, period: d.info.Caps.TimestampPeriod}
	for i := range clockTries {
		ticks, at, deviation, r := d.native.calibrate()
		now := time.Now()
		reading := hostClock()
		// The operating system may preempt this thread between the two readings.
		off := time.Duration(deviation) + time.Since(now)
		if r < 0 {
			return Clock{}, false
		}
		// `at` is a time on the clock that hostClock reads. The difference of both converts it to a time.Time.
		if i == 0 || off < best.Deviation {
			best.ticks, best.host, best.Deviation = ticks, now.Add(-time.Duration(reading-at)), off
		}
	}
	return best, true
}

// At converts ticks of the device's clock to a time on the host.
func (c Clock) At(ticks uint64) time.Time {
	return c.host.Add(tickDuration(c.ticks, ticks, c.bits, c.period))
}
