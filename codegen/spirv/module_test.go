package spirv

import (
	"encoding/binary"
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
		{"instruction of no words", withWord(10, opFuncEnd), "0 words"},
		{"instruction past the end", withWord(10, 2<<16|opFuncEnd), "2 words, 1 are left"},
		{"other last instruction", withWord(10, 1<<16|253), "truncated"},
		{"no entry point", withWord(5, 5<<16|5), "no entry point"},
		{"header only", tinyModule(1)[:headerWords*4], "no entry point"},
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

func FuzzCheckModule(f *testing.F) {
	f.Add(tinyModule(1))
	f.Add(withWord(5, 0xffff<<16))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if CheckModule(b) == nil && (len(b)%4 != 0 || binary.LittleEndian.Uint32(b) != magicWord) {
			t.Error("accepted what is not SPIR-V")
		}
	})
}
