package vkc_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// roundTrip makes a tensor of values and reads it again.
func roundTrip[T vkc.Element](t *testing.T, want ir.DType, values ...T) {
	t.Helper()
	d, err := vkc.Of(values, len(values))
	if err != nil {
		t.Fatal(err)
	}
	if d.DType != want {
		t.Errorf("%T makes %s, want %s", values, d, want)
	}
	back, err := vkc.Values[T](d)
	if err != nil || !slices.Equal(back, values) {
		t.Errorf("%v came back as %v, %v", values, back, err)
	}
	values[0] = values[1]
	if again, _ := vkc.Values[T](d); !slices.Equal(again, back) {
		t.Error("the tensor aliases the slice it was made of")
	}
}

func TestOf(t *testing.T) {
	roundTrip[float32](t, ir.F32, -1.5, 0, math.MaxFloat32)
	roundTrip[float64](t, ir.F64, math.Pi, math.Copysign(0, -1))
	roundTrip[int64](t, ir.I64, math.MinInt64, math.MaxInt64)
	roundTrip[int32](t, ir.I32, math.MinInt32, math.MaxInt32)
	roundTrip[int16](t, ir.I16, math.MinInt16, math.MaxInt16)
	roundTrip[uint16](t, ir.U16, 0, math.MaxUint16)
	roundTrip[int8](t, ir.I8, -128, 127)
	roundTrip[uint32](t, ir.U32, 0, math.MaxUint32)
	roundTrip[uint8](t, ir.U8, 0, 255)
	roundTrip[bool](t, ir.Bool, true, false, true)
	scalar, err := vkc.Of([]float32{7})
	if err != nil || len(scalar.Dims) != 0 {
		t.Errorf("a scalar: %v, %v", scalar, err)
	}
}

// TestOfType makes a tensor of every dtype from float32 where that can be, and
// reads it as float32 again.
func TestOfType(t *testing.T) {
	for _, dt := range ir.DTypes() {
		values := make([]float32, 512)
		for i := range values {
			values[i] = float32(i%7) - 3
		}
		d, err := vkc.OfType(dt, values, 2, 256)
		_, can := quant.Supported(dt)
		if want := dt.IsFloat() || dt.IsBlock() && can; (err == nil) != want {
			t.Errorf("%s from float32: %v, want success %v", dt, err, want)
		}
		if err != nil {
			continue
		}
		if err := d.Check(); err != nil {
			t.Error(err)
		}
		if decodes, _ := quant.Supported(dt); dt == ir.F64 || dt.IsBlock() && !decodes {
			continue
		}
		back, err := vkc.Values[float32](d)
		if err != nil {
			t.Errorf("%s as float32: %v", dt, err)
			continue
		}
		if dt.IsFloat() && dt != ir.F8E8M0 && !slices.Equal(back, values) { // which has powers of two only
			t.Errorf("%s: small integers came back as %v", dt, back[:7])
		}
		wide, err := vkc.Values[float64](d)
		if err != nil || len(wide) != len(back) || wide[5] != float64(back[5]) {
			t.Errorf("%s as float64: %v of %d values", dt, err, len(wide))
		}
	}
}

// TestOfTypeRoundsOnce: int64 values are rounded to a float dtype once, without a detour over float64.
func TestOfTypeRoundsOnce(t *testing.T) {
	values := vkc.Must(vkc.Values[float32](vkc.Must(vkc.OfType(ir.F32, []int64{1<<60 + 1<<36 + 1}, 1))))
	if want := float32(1<<60 + 1<<37); values[0] != want {
		t.Errorf("f32 of 2^60+2^36+1 is %v, want %v", values[0], want)
	}
}

func TestBits(t *testing.T) {
	for dt, bits := range map[ir.DType]uint16{ir.F16: 0x3e00, ir.BF16: 0x3fc0} { // 1.5
		d, err := vkc.OfType(dt, []uint16{bits, bits}, 2)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := vkc.Values[float32](d); err != nil || v[1] != 1.5 {
			t.Errorf("%s of bits: %v, %v", dt, v, err)
		}
		if v, err := vkc.Values[uint16](d); err != nil || v[0] != bits {
			t.Errorf("bits of %s: %#x, %v", dt, v, err)
		}
	}
}

func TestValuesCovers(t *testing.T) {
	d, err := vkc.OfType(ir.I8, []int{-3, 5}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := vkc.Values[int16](d); err != nil || v[0] != -3 {
		t.Error(v, err)
	}
	if v, err := vkc.Values[int](d); err != nil || v[1] != 5 {
		t.Error(v, err)
	}
	if v, err := vkc.Values[float32](d); err != nil || v[0] != -3 {
		t.Error(v, err)
	}
}

func TestOfRefuses(t *testing.T) {
	must := func(d *ir.Data, err error) *ir.Data {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	f32 := must(vkc.Of([]float32{1, 2}, 2))
	i64 := must(vkc.Of([]int64{1, 2}, 2))
	short := &ir.Data{DType: ir.F32, Dims: []int{3}, Bytes: make([]byte, 8)}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{second(vkc.Of([]float32{1, 2, 3}, 2, 2)), "tensor f32[2 2] needs 4 values, have 3"},
		{second(vkc.Of([]float32{1}, -1)), "negative"},
		{second(vkc.Of([]int{1}, 1)), "OfType(ir.I32"},
		{second(vkc.OfType(ir.Invalid, []int{1}, 1)), "invalid dtype"},
		{second(vkc.OfType(ir.I8, []int{1, 300}, 2)), "value 1 is 300: want -128 to 127"},
		{second(vkc.OfType(ir.U8, []int32{-1}, 1)), "value 0 is -1: want 0 to 255"},
		{second(vkc.OfType(ir.I32, []float32{1}, 1)), "floats go into float dtypes"},
		{second(vkc.OfType(ir.Q8_0, []float32{1}, 1)), "blocks of 32"},
		{second(vkc.OfType(ir.Q8_0, make([]float64, 32), 32)), "float32 into block dtypes"},
		{second(vkc.OfType(ir.F32, []bool{true}, 1)), "bools go into bool"},
		{second(vkc.Values[float32]((*ir.Data)(nil))), "nil"},
		{second(vkc.Values[float32](short)), "needs 12 bytes, have 8"},
		{second(vkc.Values[int32](f32)), "int32 does not hold every value of f32: read it as float32 or float64"},
		{second(vkc.Values[int32](i64)), "read it as int64"},
		{second(vkc.Values[float64](i64)), "read it as int64"},
		{second(vkc.Values[uint16](f32)), "read it as float32"},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("error %v, want %q", tt.err, tt.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Tensors are made of Go slices and read as Go slices.
func ExampleOf() {
	x, err := vkc.Of([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	fmt.Println(x, err)
	half, err := vkc.OfType(ir.F16, []float32{0.5, 0.1}, 2)
	fmt.Println(half, err)
	fmt.Println(vkc.Values[float32](half))
	fmt.Println(vkc.Values[int32](half))
	// Output:
	// f32[2 3] <nil>
	// f16[2] <nil>
	// [0.5 0.099975586] <nil>
	// [] values of f16[2]: the Go type int32 does not hold every value of f16: read it as float32 or float64 or uint16, its bits
}
