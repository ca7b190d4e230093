package spv_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/spv"
	. "github.com/vkc-go/vkc/internal/spv/spvtest"
)

// own is a user's declaration: x is read, y is written, one constant, 16 bytes of shared memory.
var own = spv.Kernel{Args: 1, Results: 1, Workgroup: [3]uint32{8, 4, 1}, Shared: 16, Constants: 1}

// ownModule has those: buffers %30 and %31, constant %42, shared variable %52.
var ownModule = [][]uint32{Shader, Main, LocalSize(8, 4, 1),
	{71, 30, 34, 0}, {71, 30, 33, 0}, {72, 10, 0, 24}, // set, binding, NonWritable member
	{71, 31, 34, 0}, {71, 31, 33, 1},
	{71, 42, 1, 0},              // SpecId 0
	{22, 8, 32}, {21, 9, 32, 0}, // float, uint
	{30, 10, 8}, {30, 11, 8}, // structures
	{32, 12, 12, 10}, {32, 13, 12, 11}, // pointers to them
	{59, 12, 30, 12}, {59, 13, 31, 12},
	{50, 9, 42, 7},                                                    // the specialization constant
	{43, 9, 43, 4}, {28, 50, 8, 43}, {32, 51, 4, 50}, {59, 51, 52, 4}, // shared float[4]
	End}

func ownWith(change func(code [][]uint32) [][]uint32) []byte {
	return Assemble(change(append([][]uint32{}, ownModule...))...)
}

func TestCheckKernel(t *testing.T) {
	for _, tt := range []struct {
		name string
		at   int // the instruction that is replaced
		by   []uint32
		want string
	}{
		{"as it is", 0, Shader, ""},
		{"constant in an array", 18, []uint32{43, 9, 43, 3}, ""},
		{"workgroup", 2, LocalSize(4, 8, 1), "workgroups are [4 8 1], declared are [8 4 1]"},
		{"no NonWritable", 5, []uint32{72, 10, 0, 25}, "binding 0 is an argument and may be written"},
		{"another member's", 5, []uint32{72, 10, 1, 24}, "may be written"},
		{"result not written", 7, []uint32{71, 31, 33, 0}, "binding 0 is an argument"},
		{"binding of nothing", 7, []uint32{71, 31, 33, 9}, "bindings 0 to 1"},
		{"another SpecId", 8, []uint32{71, 42, 1, 1}, "SpecId 1"},
		{"much shared", 18, []uint32{43, 9, 43, 5}, "20 bytes of workgroup memory, declared are 16"},
		{"endless shared", 18, []uint32{43, 9, 43, 1<<32 - 1}, "workgroup memory"},
		{"shared of a specialization constant", 19, []uint32{28, 50, 8, 42}, "an unknown number of bytes"},
		{"shared structure with a member of unknown size", 19, []uint32{30, 50, 8, 99}, "an unknown number of bytes"},
		{"addresses", 0, []uint32{17, 5347}, "capability"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := spv.CheckKernel(ownWith(func(code [][]uint32) [][]uint32 { code[tt.at] = tt.by; return code }), own)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestSpecialize: the constant gets its value, and loses the ID by which a driver could set it.
func TestSpecialize(t *testing.T) {
	module := Assemble(ownModule...)
	have, err := spv.Specialize(module, []any{int64(9)})
	want := ownWith(func(code [][]uint32) [][]uint32 {
		code[17] = []uint32{43, 9, 42, 9}
		return append(code[:8:8], code[9:]...)
	})
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("%v; have\n%x, want\n%x", err, have, want)
	}
	for value, want := range map[any]string{1.5: "not that of a float", true: "not that of a bool",
		int64(1) << 32: "does not fit"} {
		if _, err := spv.Specialize(module, []any{value}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", value, err, want)
		}
	}
	if _, err := spv.Specialize(module, nil); err == nil {
		t.Error("a constant without a value is taken")
	}
}

// FuzzCheckKernel: no module makes the checks panic, and one that passes is a shader still when it is specialized.
func FuzzCheckKernel(f *testing.F) {
	f.Add(Assemble(ownModule...))
	f.Add(Module(64, 1, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		if spv.CheckKernel(b, own) != nil {
			return
		}
		if out, err := spv.Specialize(b, []any{int64(3)}); err == nil && spv.Check(out) != nil {
			t.Error("specialized, the module is not whole")
		}
	})
}
