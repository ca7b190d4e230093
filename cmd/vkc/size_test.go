package main

import "testing"

func TestSizeFlag(t *testing.T) {
	for text, want := range map[string]uint64{
		"8G": 8 << 30, "1.5GiB": 3 << 29, "512m": 512 << 20, "4096": 4096, "2 TB": 2 << 40, "1K": 1024, "7b": 7,
		"": 0, "0": 0, "-1G": 0, "G": 0, "nan": 0, "1e30": 0, "8Q": 0, "9000000T": 0, "0.1": 0,
	} {
		var s sizeFlag
		if err := s.Set(text); uint64(s) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v; want %d", text, s, err, want)
		}
	}
}
