package spirv

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

// withWord returns a tinyModule with word i replaced.
func withWord(i int, w uint32) []byte {
	m := tinyModule(1)
	binary.LittleEndian.PutUint32(m[4*i:], w)
	return m
}

func TestCheckModule(t *testing.T) {
	const maxIDBound = 0x3FFFFF
	bigEndian := tinyModule(1)
	bigEndian[0], bigEndian[1], bigEndian[2], bigEndian[3] = 0x07, 0x23, 0x02, 0x03
	tests := []struct {
		name   string
		module []byte
		want   string // in the error; empty: accepted
	}{
		{"good", tinyModule(1), ""},
		{"largest bound", withWord(3, maxIDBound), ""},
		{"version 1.6", withWord(1, 0x00010600), ""},
		{"nil", nil, "0 bytes"},
		{"text", []byte("glslc: some message, long enough for a header"), "not SPIR-V"},
		{"odd length", append(tinyModule(1), 0), "multiple of 4"},
		{"big-endian", bigEndian, "magic"},
		{"version 2", withWord(1, 0x00020000), "version"},
		{"version noise", withWord(1, 0x00010501), "version"},
		{"bound 0", withWord(3, 0), "bound"},
		{"bound too high", withWord(3, maxIDBound+1), "bound"},
		{"schema", withWord(4, 7), "reserved"},
		{"instruction of no words", withWord(10, 56), "0 words"},
		{"instruction past the end", withWord(10, 2<<16|56), "2 words, 1 are left"},
		{"other last instruction", withWord(10, 1<<16|253), "truncated"},
		{"no entry point", withWord(5, 5<<16|5), "no entry point"},
		{"header only", tinyModule(1)[:20], "no entry point"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckModule(tt.module)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.want != "" && err == nil:
				t.Error("accepted")
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("error %q does not say %q", err, tt.want)
			}
		})
	}
}

// TestCheckModuleTruncated cuts a real module at every length.
func TestCheckModuleTruncated(t *testing.T) {
	results, _ := compile(t, realTools(t), shaders(1), Options{})
	module := results[0].SPIRV
	for n := range module {
		if CheckModule(module[:n]) == nil {
			t.Errorf("accepted %d of %d bytes", n, len(module))
		}
	}
}

func TestSmallConstantsOf(t *testing.T) {
	module := func(words ...uint32) []byte {
		var b []byte
		for _, w := range append([]uint32{0x07230203, 0x10500, 0, 20, 0}, words...) {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	int8Type := []uint32{4<<16 | opTypeInt, 1, 8, 1}
	int8Cap := []uint32{2<<16 | opCapability, 39}
	constant := func(typ uint32) []uint32 { return []uint32{4<<16 | 43, typ, 9, 2} }
	tests := []struct {
		name  string
		parts [][]uint32
		want  bool
	}{
		{"none", [][]uint32{int8Type}, false},
		{"one", [][]uint32{int8Type, constant(1)}, true},
		{"with the capability", [][]uint32{int8Cap, int8Type, constant(1)}, false},
		{"with another", [][]uint32{{2<<16 | opCapability, 22}, int8Type, constant(1)}, true},
		{"of another type", [][]uint32{int8Type, {4<<16 | opTypeInt, 2, 32, 1}, constant(2)}, false},
		{"16 bits", [][]uint32{{4<<16 | opTypeInt, 2, 16, 0}, constant(2)}, true},
		{"half", [][]uint32{{3<<16 | opTypeFloat, 2, 16}, constant(2)}, true},
		{"single", [][]uint32{{3<<16 | opTypeFloat, 2, 32}, constant(2)}, false},
		{"vector", [][]uint32{int8Type, {4<<16 | opTypeVector, 2, 1, 4}, constant(2)}, true},
		{"vector of as many", [][]uint32{int8Type, {3<<16 | opTypeFloat, 3, 32}, {4<<16 | opTypeVector, 2, 3, 1}, constant(2)}, false},
		{"struct", [][]uint32{int8Type, {3<<16 | opTypeFloat, 3, 32}, {4<<16 | opTypeStruct, 2, 3, 1}, constant(2)}, true},
		{"null", [][]uint32{int8Type, {3<<16 | 46, 1, 5}}, true},
	}
	for _, tt := range tests {
		if got := smallConstants(module(slices.Concat(tt.parts...)...)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func FuzzCheckModule(f *testing.F) {
	f.Add(tinyModule(1))
	f.Add(withWord(5, 0xffff<<16))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if CheckModule(b) == nil {
			smallConstants(b) // must not read past the end
		}
		if CheckModule(b) == nil && (len(b)%4 != 0 || binary.LittleEndian.Uint32(b) != 0x07230203) {
			t.Error("accepted what is not SPIR-V")
		}
	})
}
