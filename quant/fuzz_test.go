package quant

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// addBlocks seeds f with a golden block of every format.
func addBlocks(f *testing.F, add func(t ir.DType, block []byte)) {
	for _, typ := range readVectors(f).Types {
		t, err := ir.ParseDType(typ.Name)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range typ.Cases {
			add(t, c.Blocks[:t.BlockBytes()])
		}
	}
}

// FuzzDequantize decodes any bytes as any type: it must not panic, must accept
// exactly whole blocks of a block format, and must give the same twice.
func FuzzDequantize(f *testing.F) {
	addBlocks(f, func(t ir.DType, block []byte) {
		f.Add(uint8(t), block, uint16(t.BlockElems()))
		f.Add(uint8(t), block[1:], uint16(t.BlockElems()))
		f.Add(uint8(t), block, uint16(t.BlockElems()+1))
	})
	f.Add(uint8(255), []byte{1}, uint16(1))
	f.Fuzz(func(t *testing.T, typ uint8, src []byte, n uint16) {
		dt := ir.DType(typ)
		dst := make([]float32, n)
		err := Dequantize(dst, dt, src)
		want, sizeErr := dt.BytesFor(int64(n))
		if ok := dt.IsBlock() && sizeErr == nil && want == int64(len(src)); ok != (err == nil) {
			t.Fatalf("%s, %d bytes to %d elements: error %v", dt, len(src), n, err)
		}
		if err != nil {
			return
		}
		again := make([]float32, n)
		if err := DequantizeParallel(again, dt, src); err != nil {
			t.Fatal(err)
		}
		compareBits(t, again, dst)
		if n > 0 {
			if err := DequantizeRow(again, dt, src, 0); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// FuzzQuantize encodes one block of arbitrary floats. Values that are too large or not finite must be rejected, and all
// others must decode to finite values near the input. With importance weights, which can distort the fit, they must
// only be finite.
func FuzzQuantize(f *testing.F) {
	for _, input := range readVectors(f).Inputs {
		raw, err := binary.Append(nil, binary.LittleEndian, []float32(input[:256]))
		if err != nil {
			f.Fatal(err)
		}
		for t := range roundTrip {
			f.Add(uint8(t), raw, []byte(nil))
			f.Add(uint8(t), raw, raw[512:])
		}
	}
	f.Fuzz(func(t *testing.T, typ uint8, raw, rawWeights []byte) {
		dt := ir.DType(typ)
		x := make([]float32, max(1, dt.BlockElems()))
		putFloats(x, raw)
		opt := &Options{}
		if codecOf(dt).weighted && len(rawWeights) > 0 {
			opt.Weights = make([]float32, len(x))
			putFloats(opt.Weights, rawWeights)
			for i, w := range opt.Weights {
				if w = abs32(w); !(w <= maxWeight) {
					w = maxWeight
				}
				opt.Weights[i] = w
			}
		}
		b := make([]byte, dt.BlockBytes())
		err := Quantize(b, dt, x, opt)
		if _, ok := Supported(dt); !ok {
			var ue *UnsupportedError
			if !errors.As(err, &ue) {
				t.Fatalf("%s: error %v, want an *UnsupportedError", dt, err)
			}
			return
		}
		if bad := firstAbove(x, codecs[dt].limit); bad >= 0 {
			var ve *ValueError
			if !errors.As(err, &ve) || ve.Index != bad {
				t.Fatalf("%s: error %v, want one that names value %d", dt, err, bad)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		y := make([]float32, len(x))
		mustDequantize(t, y, dt, b)
		_, magnitude := absMax(x)
		if opt.Weights != nil {
			magnitude = math.MaxFloat32 / 2
		}
		for i := range y {
			if !(abs32(y[i]) <= 2*magnitude) {
				t.Fatalf("%s: element %d: %g in a block of magnitude %g decodes to %g", dt, i, x[i], magnitude, y[i])
			}
		}
	})
}

// putFloats sets as many elements of x as raw holds.
func putFloats(x []float32, raw []byte) {
	for i := range min(len(x), len(raw)/4) {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
}
