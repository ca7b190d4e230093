package ir

import "testing"

// TestPhilox checks the known-answer vectors that Random123 publishes for
// "philox4x32 10" in its file tests/kat_vectors.
func TestPhilox(t *testing.T) {
	const ones = 0xffffffff
	for _, tc := range []struct {
		counter [4]uint32
		key     [2]uint32
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones}, [2]uint32{ones, ones}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		if got := Philox4x32(tc.counter, tc.key); got != tc.want {
			t.Errorf("counter %x, key %x: got %x, want %x", tc.counter, tc.key, got, tc.want)
		}
	}
}

// TestRandomBlock checks how seeds and offsets become counters and keys.
func TestRandomBlock(t *testing.T) {
	seed := uint64(0x299f31d0_a4093822)
	want := Philox4x32([4]uint32{7, 1, 0, 0}, [2]uint32{0xa4093822, 0x299f31d0})
	if got := RandomBlock(seed, 1<<32-1, 8); got != want {
		t.Errorf("an offset and block that carry: got %x, want %x", got, want)
	}
	if got := RandomBlock(0, 1<<64-1, 1); got != Philox4x32([4]uint32{}, [2]uint32{}) {
		t.Errorf("blocks do not wrap: %x", got)
	}
}
