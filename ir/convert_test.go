package ir

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// bits returns the bytes of an element of t with those bits.
func bits(t DType, b uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, b)[:t.BlockBytes()]
}

func decode(t DType, b uint64) float64 {
	var v [1]float64
	DecodeFloats(v[:], t, bits(t, b))
	return v[0]
}

func encode(t DType, v float64) uint64 {
	var raw [8]byte
	EncodeFloats(raw[:t.BlockBytes()], t, []float64{v})
	return binary.LittleEndian.Uint64(raw[:])
}

// TestSmallFloatsRoundTrip decodes every bit pattern of the small floats by
// their definition, and encodes each back to itself.
func TestSmallFloatsRoundTrip(t *testing.T) {
	for _, f := range []struct {
		t        DType
		exp, man int
		inf      bool
	}{{F16, 5, 10, true}, {BF16, 8, 7, true}, {F8E4M3, 4, 3, false}, {F8E5M2, 5, 2, true}} {
		for b := range uint64(1) << (1 + f.exp + f.man) {
			got, want := decode(f.t, b), smallFloat(b, f.exp, f.man, f.inf)
			if math.IsNaN(want) {
				if !math.IsNaN(got) || !math.IsNaN(decode(f.t, encode(f.t, got))) {
					t.Fatalf("%s %#x is %g and encodes to %#x, want NaN", f.t, b, got, encode(f.t, got))
				}
				continue
			}
			if got != want || math.Signbit(got) != math.Signbit(want) {
				t.Fatalf("%s %#x is %g, want %g", f.t, b, got, want)
			}
			if back := encode(f.t, got); back != b {
				t.Fatalf("%s %g encodes to %#x, want %#x", f.t, got, back, b)
			}
		}
	}
}

// TestStoredFloats decodes codes of the floats that are only stored, and casts numbers to them.
func TestStoredFloats(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		t    DType
		v    float64
		code uint64
		is   float64
	}{
		{F4E2M1, 0.5, 1, 0.5}, {F4E2M1, 0.25, 0, 0}, {F4E2M1, 0.26, 1, 0.5}, {F4E2M1, 0.75, 2, 1}, {F4E2M1, 1.25, 2, 1},
		{F4E2M1, 1.75, 4, 2}, {F4E2M1, 5, 6, 4}, {F4E2M1, 5.1, 7, 6}, {F4E2M1, -1e9, 15, -6}, {F4E2M1, inf, 7, 6},
		{F8E4M3FNUZ, 240, 0x7f, 240}, {F8E4M3FNUZ, 1e9, 0x7f, 240}, {F8E4M3FNUZ, -inf, 0xff, -240},
		{F8E4M3FNUZ, 0x1p-10, 1, 0x1p-10}, {F8E4M3FNUZ, 0x1p-11, 0, 0}, {F8E4M3FNUZ, -0x1p-12, 0, 0},
		{F8E4M3FNUZ, 1, 0x40, 1}, {F8E4M3FNUZ, nan, 0x80, nan}, {F8E4M3FNUZ, -1.0625, 0xc0, -1},
		{F8E5M2FNUZ, 57344, 0x7f, 57344}, {F8E5M2FNUZ, 1, 0x40, 1}, {F8E5M2FNUZ, 0x1p-17, 1, 0x1p-17},
		{F8E5M2FNUZ, math.Copysign(0, -1), 0, 0}, {F8E5M2FNUZ, -nan, 0x80, nan}, {F8E5M2FNUZ, 61440, 0x7f, 57344},
		{F8E8M0, 1, 127, 1}, {F8E8M0, 1.49, 127, 1}, {F8E8M0, 1.5, 128, 2}, {F8E8M0, 0, 0, 0x1p-127}, {F8E8M0, -3, 0, 0x1p-127},
		{F8E8M0, 0x1.7p-127, 0, 0x1p-127}, {F8E8M0, 0x1.8p-127, 1, 0x1p-126}, {F8E8M0, inf, 254, 0x1p127}, {F8E8M0, nan, 255, nan},
	} {
		have := encode(c.t, c.v)
		is := decode(c.t, have)
		if have != c.code || is != c.is && (is == is || c.is == c.is) {
			t.Errorf("%s: %g is code %#x with value %g, want %#x, %g", c.t, c.v, have, is, c.code, c.is)
		}
	}
	for _, f := range []DType{F4E2M1, F8E4M3FNUZ, F8E5M2FNUZ, F8E8M0} {
		for code := range uint64(1) << f.Bits() {
			if back := encode(f, decode(f, code)); back != code {
				t.Errorf("%s: %#x is %g, of code %#x", f, code, decode(f, code), back)
			}
		}
	}
}

// TestPacked stores elements of less than a byte, and reads them from text IR.
func TestPacked(t *testing.T) {
	for _, c := range []struct{ text, bytes string }{
		{"i4[5](-8, 7, -1, 0, 3)", "\x78\x0f\x03"}, {"u4[2,2](1, 2, 15, 0)", "\x21\x0f"},
		{"i2[2,3](-2, 1, 0, -1, 1, 1)", "\xc6\x05"}, {"u2[1](3)", "\x03"}, {"i4[3](all -2)", "\xee\x0e"},
		{"f4e2m1[3](0.5, -6.0, -0.0)", "\xf1\x08"}, {"u2[0]()", ""},
	} {
		g, err := Parse("graph \"g\" {\n  %a = const {data=" + c.text + "}\n  output \"y\" %a\n}\n")
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		d := g.Nodes()[0].Attrs().Data("data")
		if text := formatData(d); string(d.Bytes) != c.bytes || text != c.text {
			t.Errorf("%s has bytes %x and prints as %s, want %x", c.text, d.Bytes, text, c.bytes)
		}
		text, err := g.MarshalJSONText()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ReadJSON("g.json", text); err != nil || back.String() != g.String() {
			t.Errorf("%s reads back from graph.json as %v, %v", c.text, back, err)
		}
	}
	d := &Data{DType: I4, Dims: []int{2, 3}, Bytes: []byte{0x21, 0x43, 0x65}}
	if front, err := d.Front(1, 2); err != nil || formatData(front) != "i4[2,2](1, 2, 4, 5)" {
		t.Errorf("the first columns are %v, %v", formatData(front), err)
	}
	for text, want := range map[string]string{
		"i4[3](1, 2)":            "i4[3] has 3 values in 2 bytes, have 2 values in 1 bytes",
		"i4[3](1, 2, 3, 4)":      "more than the 3 values",
		"i4[1](8)":               `"8" is not an i4: want an integer -8 to 7`,
		`i4[3](base64 "ISM=")`:   "the last byte of i4[3] is 0x23: want 0 in the bits after the last element",
		"f4e2m1[1](7)":           "7 is out of range for f4e2m1",
		"f8e8m0[1](0)":           "0 is out of range for f8e8m0",
		`u2[5](base64 "ISMAAA")`: "not base64",
	} {
		_, err := Parse("graph \"g\" {\n  %a = const {data=" + text + "}\n  output \"y\" %a\n}\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: have %v, want %s", text, err, want)
		}
	}
}

// smallFloat is the value of an IEEE-like float of that many exponent and
// mantissa bits. Without infinities, only the all-ones pattern is NaN.
func smallFloat(b uint64, exp, man int, inf bool) float64 {
	e, m := int(b>>man)&(1<<exp-1), b&(1<<man-1)
	bias := 1<<(exp-1) - 1
	v := math.Ldexp(float64(m), 1-bias-man)
	switch {
	case e == 1<<exp-1 && inf && m == 0:
		v = math.Inf(1)
	case e == 1<<exp-1 && (inf || m == 1<<man-1):
		return math.NaN()
	case e > 0:
		v = math.Ldexp(float64(m|1<<man), e-bias-man)
	}
	if b>>(exp+man) != 0 {
		v = -v
	}
	return v
}

// TestSmallFloatsRoundToNearest checks the middle between all neighbours and
// the float64s next to it, where rounding twice through float32 goes wrong.
func TestSmallFloatsRoundToNearest(t *testing.T) {
	for _, f := range []struct {
		t   DType
		max uint64 // largest finite
	}{{F16, 0x7bff}, {BF16, 0x7f7f}, {F8E4M3, 0x7e}, {F8E5M2, 0x7b}} {
		for lo := range f.max {
			a, b := decode(f.t, lo), decode(f.t, lo+1)
			mid := a + (b-a)/2
			even := lo + lo&1
			for _, c := range []struct {
				v    float64
				want uint64
			}{{mid, even}, {math.Nextafter(mid, 0), lo}, {math.Nextafter(mid, math.Inf(1)), lo + 1}} {
				if got := encode(f.t, c.v); got != c.want {
					t.Fatalf("%s: %v between %g and %g encodes to %#x, want %#x", f.t, c.v, a, b, got, c.want)
				}
				sign := uint64(1) << (8*f.t.BlockBytes() - 1)
				if got := encode(f.t, -c.v); got != c.want|sign {
					t.Fatalf("%s: %v encodes to %#x, want %#x", f.t, -c.v, got, c.want|sign)
				}
				if got, want := RoundTo(c.v, f.t), decode(f.t, c.want); got != want {
					t.Fatalf("RoundTo(%v, %s) = %g, want %g", c.v, f.t, got, want)
				}
			}
		}
	}
}

func TestFloatKnownValues(t *testing.T) {
	for _, c := range []struct {
		t    DType
		v    float64
		want uint64
	}{
		{F16, 1, 0x3c00}, {F16, 65504, 0x7bff}, {F16, 65519.99, 0x7bff}, {F16, 65520, 0x7c00}, {F16, math.Inf(-1), 0xfc00},
		{F16, 0x1p-24, 1}, {F16, 0x1p-25, 0}, {F16, 0x1.000001p-25, 1}, {F16, 1e-300, 0}, {F16, 1e300, 0x7c00},
		// Twice rounded, 1+2^-11+2^-40 becomes the tie 1+2^-11 and then 1.
		{F16, 1 + 0x1p-11 + 0x1p-40, 0x3c01}, {F16, 1 + 0x1p-11, 0x3c00}, {F16, 1 + 0x3p-11 - 0x1p-40, 0x3c01},
		{BF16, 1, 0x3f80}, {BF16, math.MaxFloat32, 0x7f80}, {BF16, 1 + 0x1p-8 + 0x1p-40, 0x3f81}, {BF16, 1e300, 0x7f80}, {BF16, -1e-300, 0x8000},
		{F8E4M3, 1, 0x38}, {F8E4M3, 448, 0x7e}, {F8E4M3, 1e9, 0x7e}, {F8E4M3, math.Inf(-1), 0xfe}, {F8E4M3, 0x1p-9, 1}, {F8E4M3, 0x1p-10, 0}, {F8E4M3, math.NaN(), 0x7f},
		{F8E5M2, 1, 0x3c}, {F8E5M2, 57344, 0x7b}, {F8E5M2, 61440, 0x7c}, {F8E5M2, 61439, 0x7b}, {F8E5M2, -1e9, 0xfc},
		{F32, 1 + 0x1p-24, 0x3f800000}, {F32, 1e300, 0x7f800000}, {F64, -2, 0xc000000000000000},
	} {
		if got := encode(c.t, c.v); got != c.want {
			t.Errorf("%s: %v encodes to %#x, want %#x", c.t, c.v, got, c.want)
		}
	}
}

func TestFloatToInt(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		t    DType
		v    float64
		want int64
	}{
		{I64, 1e19, math.MaxInt64}, {I64, -1e19, math.MinInt64}, {I64, 0x1p63, math.MaxInt64}, {I64, -0x1p63, math.MinInt64}, {I64, inf, math.MaxInt64},
		{I32, 2147483647.5, math.MaxInt32}, {I32, 2147483646.9, 2147483646}, {I32, -2147483648.9, math.MinInt32}, {I32, -inf, math.MinInt32},
		{U32, 4294967295.9, math.MaxUint32}, {U32, 4294967294.9, 4294967294}, {U32, -0.9, 0}, {U32, -5, 0}, {U32, inf, math.MaxUint32},
		{I8, 127.9, 127}, {I8, 128, 127}, {I8, -128.9, -128}, {I8, -1000, -128}, {I8, -1.9, -1}, {I8, 1.9, 1},
		{U8, 255.9, 255}, {U8, 256, 255}, {U8, -1, 0}, {U8, 254.9, 254},
		{Bool, 0.1, 1}, {Bool, -3, 1}, {Bool, 0, 0}, {Bool, math.Copysign(0, -1), 0}, {Bool, math.NaN(), 1}, {Bool, inf, 1},
		{I64, math.NaN(), 0}, {I32, math.NaN(), 0}, {U32, math.NaN(), 0}, {I8, math.NaN(), 0}, {U8, math.NaN(), 0},
	} {
		if got := FloatToInt(c.v, c.t); got != c.want {
			t.Errorf("%v to %s is %d, want %d", c.v, c.t, got, c.want)
		}
		d, err := FromFloats(c.t, []float64{c.v}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := d.Ints(); err != nil || got[0] != c.want {
			t.Errorf("%v stored as %s reads %v (%v), want %d", c.v, c.t, got, err, c.want)
		}
	}
}

// TestIntsWrap: values out of range wrap in storage like Wrap.
func TestIntsWrap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, dt := range []DType{I64, I32, U32, I8, U8, I4, U4, I2, U2, Bool} {
		lo, hi := IntRange(dt)
		for _, v := range []int64{0, 1, -1, lo, hi, lo - 1, hi + 1, int64(rng.Uint64()), int64(rng.Uint64())} {
			d, err := FromInts(dt, []int64{v}, 1)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Ints()
			if err != nil || got[0] != Wrap(v, dt) || got[0] < lo || got[0] > hi {
				t.Errorf("%d as %s is %v (%v), Wrap says %d, range %d to %d", v, dt, got, err, Wrap(v, dt), lo, hi)
			}
		}
	}
}

// TestIntsRoundOnce: a float type rounds an integer once, although float64 cannot represent the integer: it is just
// above the middle of two values of f32, and float64 rounds it to the middle.
func TestIntsRoundOnce(t *testing.T) {
	d, err := FromInts(F32, []int64{1<<60 + 1<<36 + 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := d.Floats(); err != nil || got[0] != 1<<60+1<<37 {
		t.Errorf("f32 of 2^60+2^36+1 is %v (%v), want 2^60+2^37", got, err)
	}
}

// TestElemText: every value of the small types and random ones of the others
// read back from text to the same bits.
func TestElemText(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for _, dt := range DTypes() {
		if dt.IsBlock() {
			continue
		}
		n := uint64(1) << min(16, dt.Bits())
		if dt == Bool {
			n = 2
		}
		for b := range n {
			if dt.BlockBytes() > 2 {
				b = rng.Uint64()
			}
			raw := bits(dt, b)
			text := formatElem(dt, raw)
			back, err := parseElem(dt, text)
			if err != nil || string(back) != string(raw) {
				t.Fatalf("%s %x prints %s and reads %x, %v", dt, raw, text, back, err)
			}
		}
	}
}

func TestDataErrors(t *testing.T) {
	for _, c := range []struct {
		f    func() (*Data, error)
		want string
	}{
		{func() (*Data, error) { return NewData(Invalid, 1) }, "invalid dtype"},
		{func() (*Data, error) { return NewData(F32, -1) }, "dim 0 of [-1] is negative"},
		{func() (*Data, error) { return NewData(F32, 1, 1, 1, 1, 1, 1, 1, 1, 1) }, "rank 9 is over the limit of 8"},
		{func() (*Data, error) { return NewData(Q4_0, 33) }, "innermost dim of [33] is not a whole number of q4_0 blocks of 32"},
		{func() (*Data, error) { return FromFloats(F32, []float64{1}, 2) }, "f32[2] needs 2 values, have 1"},
		{func() (*Data, error) { return FromFloats(Q4_0, make([]float64, 32), 32) }, "q4_0[32]: encode block types with package quant"},
		{func() (*Data, error) { return FromInts(I8, []int64{1}, 2) }, "i8[2] needs 2 values, have 1"},
	} {
		if d, err := c.f(); err == nil || err.Error() != c.want {
			t.Errorf("have %v, %v, want %s", d, err, c.want)
		}
	}
	if v, err := (&Data{F32, []int{1}, make([]byte, 4)}).Ints(); err == nil {
		t.Errorf("floats read as integers %v", v)
	}
	if v, err := (&Data{Q4_0, []int{32}, make([]byte, 18)}).Floats(); err == nil {
		t.Errorf("blocks read as floats %v", v)
	}
}
