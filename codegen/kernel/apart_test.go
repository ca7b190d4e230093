package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// storing returns a map that stores to one buffer at an index.
func storing(t ir.DType, x Index) *Kernel {
	return &Kernel{Family: FamilyMap, Bindings: []Binding{{DType: t, Write: true}}, Stores: []Store{{Index: x}}}
}

func TestWriteApart(t *testing.T) {
	row := func(extent int) Index { return Axis(0, ir.D(extent)) }
	col := func(extent int) Index { return Axis(1, ir.D(extent)) }
	tests := []struct {
		name  string
		t     ir.DType
		x, y  Index
		apart bool
	}{
		{"rows", ir.F32, row(3).Times(8).Plus(col(8)), row(2).Times(8).Plus(col(8)).Plus(Const(24)), true},
		{"one row", ir.F32, row(3).Times(8).Plus(col(8)), col(8).Plus(Const(24)), true},
		{"columns", ir.F32, row(5).Times(8).Plus(col(6)), row(5).Times(8).Plus(col(2)).Plus(Const(6)), true},
		{"the same column", ir.F32, row(5).Times(8).Plus(col(6)), row(5).Times(8).Plus(col(3)).Plus(Const(5)), false},
		{"carry", ir.F32, row(5).Times(8).Plus(col(9)), row(5).Times(8).Plus(col(2)).Plus(Const(6)), false},
		{"halves of a word", ir.F16, row(5).Times(8).Plus(col(5)), row(5).Times(8).Plus(col(3)).Plus(Const(5)), false},
		{"words of two", ir.F16, row(5).Times(8).Plus(col(6)), row(5).Times(8).Plus(col(2)).Plus(Const(6)), true},
		{"odd rows", ir.F16, row(3).Times(7).Plus(col(7)), row(2).Times(7).Plus(col(7)).Plus(Const(21)), false},
	}
	for _, tt := range tests {
		if got := WriteApart(storing(tt.t, tt.x), 0, storing(tt.t, tt.y), 0); got != tt.apart {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.apart)
		}
	}
	reads := storing(ir.F32, row(2))
	reads.Bindings[0].Read = true
	if WriteApart(reads, 0, storing(ir.F32, row(2).Plus(Const(2))), 0) {
		t.Error("a kernel that reads what another one writes is not apart from it")
	}
}

// TestWriteApartIsProof compares WriteApart with the elements that random stores write.
func TestWriteApartIsProof(t *testing.T) {
	rng, found := rand.New(rand.NewPCG(1, 2)), 0
	for range 20_000 {
		strides, extents := [3]int64{1 + rng.Int64N(12), 1 + rng.Int64N(4), 1}, [2][3]int{}
		var x [2]Index
		var words [2]map[int64]bool
		dtype := []ir.DType{ir.F32, ir.F16, ir.I8, ir.I4}[rng.IntN(4)]
		for i := range x {
			offset := rng.Int64N(24)
			x[i] = Const(offset)
			words[i] = map[int64]bool{}
			for a := range 3 {
				extents[i][a] = 1 + rng.IntN(4)
				x[i] = x[i].Plus(Axis(a, ir.D(extents[i][a])).Times(strides[a]))
			}
			for n := range extents[i][0] * extents[i][1] * extents[i][2] {
				at := offset + int64(n%extents[i][0])*strides[0] +
					int64(n/extents[i][0]%extents[i][1])*strides[1] + int64(n/extents[i][0]/extents[i][1])*strides[2]
				words[i][at*int64(dtype.Bits())/32] = true
			}
		}
		if !WriteApart(storing(dtype, x[0]), 0, storing(dtype, x[1]), 0) {
			continue
		}
		found++
		for w := range words[0] {
			if words[1][w] {
				t.Fatalf("%s: %s and %s both write word %d", dtype, x[0], x[1], w)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d stores are apart", found)
	}
}
