package quant

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// roundTrip holds, for each format that can be encoded, the greatest error of a
// decoded element relative to the largest magnitude of its block: half a step of
// the levels, or the clipped far end, plus the rounding of the scale.
var roundTrip = map[ir.DType]float64{
	ir.Q4_0:    1.0 / 8, // the end opposite the largest is clipped by one step
	ir.Q4_1:    1.0 / 15,
	ir.Q5_0:    1.0 / 16,
	ir.Q5_1:    1.0 / 31,
	ir.Q8_0:    0.5 / 127,
	ir.Q8_1:    0.5 / 127,
	ir.Q2_K:    0.5,
	ir.Q3_K:    0.25,
	ir.Q4_K:    1.0 / 7, // candidate scales are up to a level off
	ir.Q5_K:    1.0 / 15,
	ir.Q6_K:    1.0 / 31,
	ir.Q8_K:    0.5 / 127,
	ir.IQ1_S:   0.9, // codebooks hold a few of the combinations of levels
	ir.IQ1_M:   0.9,
	ir.IQ2_XXS: 1, // and signs may have to be even
	ir.IQ2_XS:  1,
	ir.IQ2_S:   0.6,
	ir.IQ3_XXS: 0.9,
	ir.IQ3_S:   0.3,
	ir.IQ4_NL:  15.0 / 113,
	ir.IQ4_XS:  15.0/113 + 1.0/64, // group scales have 6 bits
	ir.TQ1_0:   0.5,
	ir.TQ2_0:   0.5,
	ir.MXFP4:   0.25,           // values between 6 and 8 clip to 6, or round between 4 and 6
	ir.NVFP4:   1.0/6 + 1.0/16, // values round between 4 and 6, with a scale of three fraction bits
}

// scaleRounding is the relative error of a stored scale or minimum, and slack
// for the fitted scales of iq4.
const scaleRounding = 2e-3

func TestRoundTripError(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dt := range ir.DTypes() {
		if _, ok := Supported(dt); !ok {
			continue
		}
		bound, ok := roundTrip[dt]
		if !ok {
			t.Errorf("%s has no round-trip bound", dt)
			continue
		}
		t.Run(dt.String(), func(t *testing.T) {
			n := dt.BlockElems()
			x, y, b := make([]float32, n), make([]float32, n), make([]byte, dt.BlockBytes())
			for trial := range 300 {
				scale := math.Exp2(float64(trial % 10)) // no stored scale is subnormal
				for i := range x {
					x[i] = float32(scale * (rng.Float64()*2 - 1))
				}
				mustQuantize(t, b, dt, x, nil)
				mustDequantize(t, y, dt, b)
				_, magnitude := absMax(x)
				limit := (bound + scaleRounding) * float64(magnitude)
				for i := range x {
					if e := math.Abs(float64(y[i]) - float64(x[i])); !(e <= limit) {
						t.Fatalf("trial %d: element %d: %g decodes to %g: error %g of the block's magnitude, bound %g",
							trial, i, x[i], y[i], e/float64(magnitude), bound)
					}
				}
			}
		})
	}
}

// TestScalingByPowerOfTwo checks that doubling the input doubles the decoded
// output exactly: the levels do not depend on the magnitude.
func TestScalingByPowerOfTwo(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for dt := range roundTrip {
		t.Run(dt.String(), func(t *testing.T) {
			n := dt.BlockElems() * 4
			x, x2 := make([]float32, n), make([]float32, n)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
				x2[i] = 2 * x[i]
			}
			y, y2 := quantizeDequantize(t, dt, x), quantizeDequantize(t, dt, x2)
			for i := range y {
				if y2[i] != 2*y[i] {
					t.Fatalf("element %d: %g doubled decodes to %g, want %g", i, x[i], y2[i], 2*y[i])
				}
			}
		})
	}
}

func quantizeDequantize(t *testing.T, dt ir.DType, x []float32) []float32 {
	t.Helper()
	b, y := make([]byte, len(x)/dt.BlockElems()*dt.BlockBytes()), make([]float32, len(x))
	mustQuantize(t, b, dt, x, nil)
	mustDequantize(t, y, dt, b)
	return y
}

func mustQuantize(t *testing.T, dst []byte, dt ir.DType, src []float32, opt *Options) {
	t.Helper()
	if err := Quantize(dst, dt, src, opt); err != nil {
		t.Fatal(err)
	}
}

func mustDequantize(t *testing.T, dst []float32, dt ir.DType, src []byte) {
	t.Helper()
	if err := Dequantize(dst, dt, src); err != nil {
		t.Fatal(err)
	}
}

// TestQ8_1 checks the decoding of q8_1, which has no golden values, by hand.
func TestQ8_1(t *testing.T) {
	b := make([]byte, 36)
	putHalf(b, 0.5)
	b[4], b[5], b[35] = 3, 0x80, 0xff
	want := make([]float32, 32)
	want[0], want[1], want[31] = 1.5, -64, -0.5
	got := make([]float32, 32)
	mustDequantize(t, got, ir.Q8_1, b)
	compareBits(t, got, want)
}

// TestQ8_K checks both directions of q8_K, which has no golden values, by hand.
func TestQ8_K(t *testing.T) {
	x := make([]float32, 256)
	x[0], x[1], x[2], x[3], x[16] = 254, 1, 3, -254, -6 // scale -2; halves round to even
	b := make([]byte, 292)
	mustQuantize(t, b, ir.Q8_K, x, nil)

	want := make([]byte, 292)
	binary.LittleEndian.PutUint32(want, math.Float32bits(-2))
	for i, q := range map[int]int8{0: -127, 1: 0, 2: -2, 3: 127, 16: 3} {
		want[4+i] = byte(q)
	}
	var sums = [2]int16{-2, 3}
	binary.LittleEndian.PutUint16(want[260:], uint16(sums[0]))
	binary.LittleEndian.PutUint16(want[262:], uint16(sums[1]))
	compareBlocks(t, b, want, 292)

	y := make([]float32, 256)
	mustDequantize(t, y, ir.Q8_K, b)
	for i, v := range map[int]float32{0: 254, 1: 0, 2: 4, 3: -254, 16: -6, 255: 0} {
		if y[i] != v {
			t.Errorf("element %d decodes to %g, want %g", i, y[i], v)
		}
	}
}

// nearest is the definition that the fast searches must match: the first of the
// levels that is nearest to x, or the last where equals go up.
func nearest(levels []int8, d, x float32, up bool) byte {
	best := 0
	for i, v := range levels {
		e, least := abs32(float32(v)*d-x), abs32(float32(levels[best])*d-x)
		if e < least || up && e == least {
			best = i
		}
	}
	return byte(best)
}

func TestNearestMXFP4(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, d := range []float32{1, 0x1p-20, 0x1p100, scaleMXFP4(0), scaleNVFP4(1), scaleNVFP4(7), scaleNVFP4(0x6d)} {
		var mids [7]uint32
		for i, mid := range midpointsMXFP4 {
			mids[i] = math.Float32bits(mid * d)
		}
		for i := range 10000 {
			mid := midpointsMXFP4[i%7] * d
			for _, x := range []float32{
				0, mid, math.Nextafter32(mid, 0), math.Nextafter32(mid, 2*mid), rng.Float32() * 16 * d,
			} {
				for _, x := range []float32{x, -x} {
					if got, want := nearestMXFP4(x, &mids), nearest(valuesMXFP4[:], d, x, false); got != want {
						t.Fatalf("nearestMXFP4(%g) with scale %g = %d, want %d", x, d, got, want)
					}
				}
			}
		}
	}
}

// TestUE4M3 encodes every scale as itself, and values between two scales as the nearer one. As in ggml, no denormal
// rounds up to a normal number, and 448 represents all values of the last exponent.
func TestUE4M3(t *testing.T) {
	for code := byte(0); code < 15<<3; code++ {
		x := 2 * scaleNVFP4(code)
		next, above := 2*scaleNVFP4(code+1), code+1
		if above == 15<<3 {
			above, next = 0x7e, 256
		}
		middle, up := (x+next)/2, above
		if code == 7 {
			up = code
		}
		for _, c := range []struct {
			x    float32
			want byte
		}{{x, code}, {middle * (1 - 0x1p-22), code}, {middle, up}, {next, above}} {
			if got := encodeUE4M3(c.x); got != c.want {
				t.Errorf("%g is encoded as %#x, want %#x", c.x, got, c.want)
			}
		}
	}
	if got := scaleNVFP4(encodeUE4M3(maxUE4M3)); got != maxUE4M3/2 {
		t.Errorf("half of the greatest scale is %g, want 224", got)
	}
	if got := scaleNVFP4(0x7f); got != 0 {
		t.Errorf("a scale that is not a number counts as %g, want 0", got)
	}
}

func TestNearestIQ4(t *testing.T) {
	check := func(v float32) {
		if got, want := nearestIQ4(v), nearest(valuesIQ4NL[:], 1, v, true); got != want {
			t.Errorf("nearestIQ4(%v) = %d, want %d", v, got, want)
		}
	}
	for half := -300; half <= 300; half++ {
		v := float32(half) / 2
		check(v)
		check(math.Nextafter32(v, -1000))
		check(math.Nextafter32(v, 1000))
	}
	check(-1e5)
	check(1e5)
}

func TestExponentMXFP4(t *testing.T) {
	for _, tc := range []struct {
		magnitude float32
		want      byte
	}{
		{0, 0},
		{math.SmallestNonzeroFloat32, 0},
		{1, 125},
		{math.Nextafter32(1, 0), 124},
		{math.Nextafter32(128, 0), 132}, // its float32 logarithm is 7
		{128, 132},
		{0x1p127, 252},
	} {
		if got := exponentMXFP4(tc.magnitude); got != tc.want {
			t.Errorf("exponentMXFP4(%g) = %d, want %d", tc.magnitude, got, tc.want)
		}
	}
}

// TestTinyMagnitudes tests inputs with a scale that is zero in float16 or has no finite inverse. They must decode to
// values of at most their size.
func TestTinyMagnitudes(t *testing.T) {
	for dt := range roundTrip {
		for _, v := range []float32{0, math.SmallestNonzeroFloat32, 1e-40, 1e-38, 1e-30, 1e-16, 1e-12} {
			x := make([]float32, dt.BlockElems())
			for i := range x {
				x[i] = v * float32(1-i%3)
			}
			for i, y := range quantizeDequantize(t, dt, x) {
				if !(abs32(y) <= 1.25*v) {
					t.Errorf("%s: element %d of magnitude %g decodes to %g", dt, i, v, y)
				}
			}
		}
	}
}

// TestParallelMatchesSerial checks that neither direction depends on how the
// blocks are split, at sizes around the split threshold and off it.
func TestParallelMatchesSerial(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, blocks := range []int{1, minChunk/32 - 1, 2 * minChunk / 32, 7*minChunk/32 + 13} {
		x := make([]float32, blocks*32)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		serial, parallel := make([]byte, blocks*18), make([]byte, blocks*18)
		mustQuantize(t, serial, ir.Q4_0, x, &Options{Workers: 1})
		for _, workers := range []int{0, 2, 3, 100} {
			clear(parallel)
			mustQuantize(t, parallel, ir.Q4_0, x, &Options{Workers: workers})
			if !bytes.Equal(serial, parallel) {
				t.Errorf("%d blocks: %d workers differ from one", blocks, workers)
			}
		}
		want, got := make([]float32, len(x)), make([]float32, len(x))
		mustDequantize(t, want, ir.Q4_0, serial)
		if err := DequantizeParallel(got, ir.Q4_0, serial); err != nil {
			t.Fatal(err)
		}
		compareBits(t, got, want)
	}
}

func TestDequantizeRow(t *testing.T) {
	const rows, cols = 5, 96
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(i) - 100
	}
	b := make([]byte, rows*cols/32*34)
	mustQuantize(t, b, ir.Q8_0, x, nil)
	all := make([]float32, len(x))
	mustDequantize(t, all, ir.Q8_0, b)
	row := make([]float32, cols)
	for r := range rows {
		if err := DequantizeRow(row, ir.Q8_0, b, r); err != nil {
			t.Fatal(err)
		}
		compareBits(t, row, all[r*cols:][:cols])
	}
	if n := testing.AllocsPerRun(10, func() { _ = DequantizeRow(row, ir.Q8_0, b, 1) }); n != 0 {
		t.Errorf("a row takes %v allocations, want none", n)
	}
}

func TestDequantizeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name       string
		t          ir.DType
		elems, src int
		want       string
	}{
		{"part of a block", ir.Q4_0, 32, 17, "17 bytes are not a whole number of 18-byte blocks"},
		{"part of the elements", ir.Q4_0, 31, 18, "31 elements are not a whole number of blocks of 32"},
		{"dst too short", ir.Q8_0, 32, 68, "32 elements take 34 bytes, not 68"},
		{"dst too long", ir.Q8_0, 64, 34, "64 elements take 68 bytes, not 34"},
		{"no src", ir.Q6_K, 256, 0, "256 elements take 210 bytes, not 0"},
		{"scalar", ir.F32, 1, 4, "dequantize f32: not supported; supported formats: q4_0 q4_1"},
		{"invalid", ir.Invalid, 0, 0, "not supported"},
		{"no such type", ir.DType(200), 0, 0, "not supported"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dst, src := make([]float32, tc.elems), make([]byte, tc.src)
			wantError(t, Dequantize(dst, tc.t, src), tc.want)
			wantError(t, DequantizeParallel(dst, tc.t, src), tc.want)
		})
	}
}

func TestDequantizeRowRefuses(t *testing.T) {
	for _, tc := range []struct {
		name            string
		t               ir.DType
		cols, rows, row int
		extra           int
		want            string
	}{
		{"row too high", ir.Q4_0, 64, 3, 3, 0, "row 3 of a matrix with 3 rows"},
		{"negative row", ir.Q4_0, 64, 3, -1, 0, "row -1 of a matrix with 3 rows"},
		{"no rows", ir.Q4_0, 64, 0, 0, 0, "row 0 of a matrix with 0 rows"},
		{"empty row", ir.Q4_0, 0, 0, 0, 18, "rows of 0 elements"},
		{"row not whole blocks", ir.Q4_0, 40, 0, 0, 18, "40 elements are not a whole number of q4_0 blocks"},
		{"src not whole rows", ir.Q4_0, 64, 1, 0, 18, "54 bytes are not a whole number of rows"},
		{"scalar", ir.F16, 4, 1, 0, 0, "dequantize f16: not supported"},
		{"no such type", ir.DType(200), 4, 0, 0, 0, "dtype(200)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rowBytes, _ := tc.t.BytesFor(int64(tc.cols))
			src := make([]byte, tc.rows*int(rowBytes)+tc.extra)
			wantError(t, DequantizeRow(make([]float32, tc.cols), tc.t, src, tc.row), tc.want)
		})
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one containing %q", err, want)
	}
}

func TestQuantizeRefuses(t *testing.T) {
	ones := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = 1
		}
		return w
	}
	nan := float32(math.NaN())
	for _, tc := range []struct {
		name     string
		t        ir.DType
		src, dst int
		opt      *Options
		want     string
	}{
		{"scalar", ir.F32, 1, 4, nil, "quantize f32: not supported; supported formats: q4_0"},
		{"no such type", ir.DType(255), 1, 4, nil, "not supported"},
		{"dst too short", ir.Q4_0, 64, 18, nil, "64 elements take 36 bytes, not 18"},
		{"part of a block", ir.Q4_0, 33, 18, nil, "33 elements are not a whole number"},
		{"weights unused", ir.Q8_0, 32, 34, &Options{Weights: ones(32)}, "quantize with weights q8_0: not supported; supported formats: q4_0 q4_1"},
		{"weights of no row", ir.IQ4_NL, 96, 54, &Options{Weights: ones(64)}, "64 weights for 96 values"},
		{"weights of half a block", ir.IQ4_NL, 32, 18, &Options{Weights: ones(16)}, "16 weights for 32 values"},
		{"empty weights", ir.IQ4_NL, 32, 18, &Options{Weights: ones(0)}, "0 weights"},
		{"negative weight", ir.IQ4_NL, 32, 18, &Options{Weights: append(ones(31), -1)}, "weight 31 is -1"},
		{"NaN weight", ir.IQ4_NL, 32, 18, &Options{Weights: append(ones(31), nan)}, "weight 31 is NaN"},
		{"huge weight", ir.IQ4_NL, 32, 18, &Options{Weights: append(ones(31), 2e9)}, "weight 31 is 2e+09"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantError(t, Quantize(make([]byte, tc.dst), tc.t, make([]float32, tc.src), tc.opt), tc.want)
		})
	}
}

// TestQuantizeRefusesValues checks that the first bad value is named, also when
// it lies in a later worker's part, and that the limit itself is accepted.
func TestQuantizeRefusesValues(t *testing.T) {
	inf := float32(math.Inf(1))
	for dt := range roundTrip {
		limit := codecs[dt].limit
		for _, tc := range []struct {
			value float32
			want  string
		}{
			{float32(math.NaN()), "only finite values"},
			{math.Float32frombits(0xffc00001), "only finite values"},
			{inf, "only finite values"},
			{-inf, "only finite values"},
			{math.Nextafter32(limit, inf), "its scale would overflow"},
			{-math.Nextafter32(limit, inf), "its scale would overflow"},
		} {
			t.Run(fmt.Sprintf("%s/%v", dt, tc.value), func(t *testing.T) {
				blocks := 8 * minChunk / dt.BlockElems()
				x := make([]float32, blocks*dt.BlockElems())
				first := len(x) - 5000
				x[first], x[len(x)-1] = tc.value, tc.value
				err := Quantize(make([]byte, blocks*dt.BlockBytes()), dt, x, nil)
				var ve *ValueError
				if !errors.As(err, &ve) {
					t.Fatalf("error %v, want a *ValueError", err)
				}
				if ve.Index != first || ve.Type != dt {
					t.Errorf("names value %d of %s, want %d of %s", ve.Index, ve.Type, first, dt)
				}
				wantError(t, err, fmt.Sprintf("value %d is %g: %s", first, tc.value, tc.want))
			})
		}
	}
}

// TestLimitDecodesFinite checks that a block at a format's limit survives.
func TestLimitDecodesFinite(t *testing.T) {
	for dt := range roundTrip {
		limit := codecs[dt].limit
		for _, pattern := range [][]float32{{1}, {-1}, {1, -1}, {-1, 0.1, 1}, {0, 0.9, -1}} {
			x := make([]float32, dt.BlockElems())
			for i := range x {
				x[i] = limit * pattern[i%len(pattern)]
			}
			for i, y := range quantizeDequantize(t, dt, x) {
				if abs32(y) > math.MaxFloat32 || y != y {
					t.Errorf("%s: %v of the limit: element %d decodes to %g", dt, pattern, i, y)
					break
				}
			}
		}
	}
}

// TestWeights checks that importance weights draw the fit to the elements that
// matter, that scaling them changes nothing, that rows reuse them and that
// all-zero weights still give a usable block.
func TestWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, dt := range ir.DTypes() {
		if !codecOf(dt).weighted {
			continue
		}
		t.Run(dt.String(), func(t *testing.T) {
			n, size := dt.BlockElems(), dt.BlockBytes()
			row, w := make([]float32, n), make([]float32, n)
			for i := range row {
				row[i] = float32(rng.NormFloat64())
				w[i] = float32(i % 2)
			}
			plain, weighted, zero := make([]byte, size), make([]byte, size), make([]byte, size)
			mustQuantize(t, plain, dt, row, nil)
			mustQuantize(t, weighted, dt, row, &Options{Weights: w})
			mustQuantize(t, zero, dt, row, &Options{Weights: make([]float32, n)})
			if a, b := errorOfOdd(t, dt, plain, row), errorOfOdd(t, dt, weighted, row); b >= a {
				t.Errorf("weighted error %g is not below the plain %g", b, a)
			}
			if e := errorOfOdd(t, dt, zero, row); !(e < 3*errorOfOdd(t, dt, plain, row)) {
				t.Errorf("error %g with zero weights", e)
			}

			for i := range w {
				w[i] *= 4
			}
			twice := make([]byte, 2*size)
			mustQuantize(t, twice, dt, append(row, row...), &Options{Weights: w})
			if !bytes.Equal(twice, append(weighted, weighted...)) {
				t.Error("two rows with scaled weights differ from the row twice")
			}
		})
	}
}

// TestWeightedMinimum checks that weights do not cost the formats with a free
// minimum their range where all values are positive.
func TestWeightedMinimum(t *testing.T) {
	x, w := make([]float32, 32), make([]float32, 32)
	for i := range x {
		x[i], w[i] = 100+float32(i%16)/15, 1
	}
	for _, dt := range []ir.DType{ir.Q4_1, ir.Q5_1} {
		b, y := make([]byte, dt.BlockBytes()), make([]float32, 32)
		mustQuantize(t, b, dt, x, &Options{Weights: w})
		mustDequantize(t, y, dt, b)
		for i := range x {
			if abs32(y[i]-x[i]) > 0.04 { // half a step and the minimum as float16
				t.Errorf("%s: %g decodes to %g", dt, x[i], y[i])
			}
		}
	}
}

// errorOfOdd returns the squared error of the odd elements relative to x.
func errorOfOdd(t *testing.T, dt ir.DType, block []byte, x []float32) float64 {
	y := make([]float32, len(x))
	mustDequantize(t, y, dt, block)
	var sum, total float64
	for i := 1; i < len(x); i += 2 {
		sum += float64(y[i]-x[i]) * float64(y[i]-x[i])
		total += float64(x[i]) * float64(x[i])
	}
	return sum / total
}

func TestSupported(t *testing.T) {
	for _, tc := range []struct {
		t           ir.DType
		dequant, qu bool
		weights     bool
	}{
		{ir.Q4_0, true, true, true},
		{ir.Q4_K, true, true, true},
		{ir.IQ1_S, true, true, true},
		{ir.MXFP4, true, true, false},
		{ir.F32, false, false, false},
		{ir.Invalid, false, false, false},
		{ir.DType(255), false, false, false},
	} {
		if d, q := Supported(tc.t); d != tc.dequant || q != tc.qu {
			t.Errorf("Supported(%s) = %v, %v, want %v, %v", tc.t, d, q, tc.dequant, tc.qu)
		}
		if got := UsesWeights(tc.t); got != tc.weights {
			t.Errorf("UsesWeights(%s) = %v, want %v", tc.t, got, tc.weights)
		}
	}
	for _, dt := range ir.DTypes() {
		if d, _ := Supported(dt); d != dt.IsBlock() {
			t.Errorf("%s: decoding supported is %v, a block format is %v", dt, d, dt.IsBlock())
		}
	}
}

func TestUnsupportedErrorLists(t *testing.T) {
	err := Quantize(nil, ir.F32, nil, nil)
	var ue *UnsupportedError
	if !errors.As(err, &ue) {
		t.Fatalf("error %v, want an *UnsupportedError", err)
	}
	for _, dt := range ue.Have {
		if _, ok := Supported(dt); !ok {
			t.Errorf("lists %s, which cannot be encoded", dt)
		}
	}
	if len(ue.Have) != len(roundTrip) {
		t.Errorf("lists %d formats, want %d", len(ue.Have), len(roundTrip))
	}
}
