package npy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

func TestParseLiteral(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		text  string
		dtype ir.DType
		dims  []int
		want  []float64
	}{
		{"3", ir.F32, nil, []float64{3}},
		{" -1.5e1 ", ir.F64, nil, []float64{-15}},
		{"[1,2,3]", ir.F32, []int{3}, []float64{1, 2, 3}},
		{"[[1, 2],\n [3, 4], [5, 6]]", ir.I32, []int{3, 2}, []float64{1, 2, 3, 4, 5, 6}},
		{"[]", ir.F32, []int{0}, nil},
		{"[[],[]]", ir.I64, []int{2, 0}, nil},
		{"[[[7]]]", ir.U8, []int{1, 1, 1}, []float64{7}},
		{"[[[[[[[[1]]]]]]]]", ir.U8, []int{1, 1, 1, 1, 1, 1, 1, 1}, []float64{1}},
		{"[inf, -inf, Inf]", ir.F16, []int{3}, []float64{inf, -inf, inf}},
		{"[65504, 65519, 1e-30]", ir.F16, []int{3}, []float64{65504, 65504, 0}},
		{"[1.00390625, 1.01171875]", ir.BF16, []int{2}, []float64{1, 1.015625}}, // ties go to even
		{"[-448, 0.4]", ir.F8E4M3, []int{2}, []float64{-448, 0.40625}},
		{"[true, false, 1, 0]", ir.Bool, []int{4}, []float64{1, 0, 1, 0}},
		{"[-128, 127]", ir.I8, []int{2}, []float64{-128, 127}},
		{"[0, 4294967295]", ir.U32, []int{2}, []float64{0, 4294967295}},
	} {
		t.Run(fmt.Sprintf("%s %s", c.dtype, c.text), func(t *testing.T) {
			d, err := ParseLiteral(c.text, c.dtype)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Check(); err != nil {
				t.Fatal(err)
			}
			got := make([]float64, d.Elems())
			ir.DecodeFloats(got, d.DType, d.Bytes)
			if d.DType != c.dtype || !slices.Equal(d.Dims, c.dims) || !slices.Equal(got, c.want) {
				t.Errorf("got %v %v, want %v %v", d, got, c.dims, c.want)
			}
		})
	}
}

func TestParseLiteralKeepsAllBitsOfInt64(t *testing.T) {
	d, err := ParseLiteral("[9223372036854775807, -9223372036854775808]", ir.I64)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]int64, 2)
	ir.DecodeInts(got, ir.I64, d.Bytes)
	if want := []int64{math.MaxInt64, math.MinInt64}; !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}

func TestParseLiteralRefuses(t *testing.T) {
	for _, c := range []struct {
		text  string
		dtype ir.DType
		want  string
	}{
		{"", ir.F32, "at byte 0: the end stands where an element should"},
		{"  ", ir.F32, "the end stands where"},
		{"[", ir.F32, "the end stands where"},
		{"[1", ir.F32, "the end follows an element: want ',' or ']'"},
		{"[1,]", ir.F32, `at byte 3: "]" stands where an element should`},
		{"[,1]", ir.F32, `"," stands where an element should`},
		{"[1 2]", ir.F32, `"2" follows an element`},
		{"[1]]", ir.F32, `"]" follows the value`},
		{"1 2", ir.F32, `"2" follows the value`},
		{"1\x00", ir.F32, `not an element of type f32`},
		{"[1]\x00", ir.F32, `"\x00" follows the value`},
		{"(1)", ir.F32, `"(1)" is not an element`},
		{"[one]", ir.F32, `at byte 1: "one" is not an element of type f32: want a number`},
		{"[1_0]", ir.I32, `"1_0" is not an element`},
		{"[1.0]", ir.I32, "want an integer"},
		{"[true]", ir.I32, "want an integer"},
		{"[nan]", ir.I32, "want an integer"},
		{"[yes]", ir.Bool, "want true or false"},
		{"[2]", ir.Bool, "out of the range of bool, 0 to 1"},
		{"[[1,2],[3]]", ir.F32, "at byte 9: an array of 1 elements ends here: want 2"},
		{"[[1],[2,3]]", ir.F32, "an array of 2 elements ends here: want 1"},
		{"[[1],2]", ir.F32, `at byte 5: "2" stands where earlier rows have an array`},
		{"[1,[2]]", ir.F32, "at byte 3: an array stands where earlier rows have a number"},
		{"[[],1]", ir.F32, "stands where earlier rows have an array"},
		{"[[],[[]]]", ir.F32, "an array of 1 elements ends here: want 0"},
		{"[[[[[[[[[1]]]]]]]]]", ir.F32, "at byte 8: the brackets nest more than 8 deep"},
		{strings.Repeat("[", 1<<20), ir.F32, "more than 8 deep"},
		{"[128]", ir.I8, `"128" is out of the range of i8, -128 to 127`},
		{"[-1]", ir.U32, "out of the range of u32, 0 to 4294967295"},
		{"[9223372036854775808]", ir.I64, "out of the range of i64"},
		{"[65520]", ir.F16, `"65520" is out of the range of f16`},
		{"[1e39]", ir.F32, "out of the range of f32"},
		{"[1e39]", ir.BF16, "out of the range of bf16"},
		{"[1e400]", ir.F64, "out of the range of f64"},
		{"[449]", ir.F8E4M3, "out of the range of f8e4m3"},
		{"[inf]", ir.F8E4M3, "out of the range of f8e4m3"},
		{"[1]", ir.Q4_0, "cannot be written as text"},
		{"[1]", ir.Invalid, "cannot be written as text"},
	} {
		t.Run(fmt.Sprintf("%s %.30s", c.dtype, c.text), func(t *testing.T) {
			if d, err := ParseLiteral(c.text, c.dtype); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want an error with %q", d, err, c.want)
			}
		})
	}
}

func FuzzParseLiteral(f *testing.F) {
	for _, seed := range []string{"3", "[]", "[[1, -2.5], [inf, nan]]", "[[1],[2,3]]", "[true,0]", "[[],[[]]]",
		"[1e400", "[,"} {
		for _, t := range []ir.DType{ir.F32, ir.F8E4M3, ir.I8, ir.Bool} {
			f.Add(seed, uint8(t))
		}
	}
	f.Fuzz(func(t *testing.T, text string, dtype uint8) {
		d, err := ParseLiteral(text, ir.DType(dtype))
		if err != nil {
			if e := new(filefmt.Error); !errors.As(err, &e) || e.Pos < 0 || e.Pos > int64(len(text)) {
				t.Fatalf("%v: want a position inside the %d bytes", err, len(text))
			}
			return
		}
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
	})
}
