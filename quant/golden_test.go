package quant

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// vectors mirrors golden/quant/ggml-vectors.json.
type vectors struct {
	Inputs map[string]base64Floats
	Types  []struct {
		Name          string
		BlockElements int `json:"block_elements"`
		BlockBytes    int `json:"block_bytes"`
		Imatrix       bool
		Cases         []struct {
			Input       string
			Blocks      []byte
			Dequantized base64Floats
		}
	}
}

// base64Floats are little-endian float32 values in base64.
type base64Floats []float32

func (f *base64Floats) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return err
	}
	*f = make([]float32, len(raw)/4)
	_, err = binary.Decode(raw, binary.LittleEndian, []float32(*f))
	return err
}

func readVectors(t testing.TB) vectors {
	t.Helper()
	text, err := os.ReadFile("../golden/quant/ggml-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// noVectors are the formats without decoded values in the test vectors. Hand-made blocks check them instead.
var noVectors = map[ir.DType]bool{ir.Q8_1: true, ir.Q8_K: true}

// TestGoldenDequantize compares every format with ggml's decoded values.
func TestGoldenDequantize(t *testing.T) {
	seen := map[ir.DType]bool{}
	for _, typ := range readVectors(t).Types {
		dt, err := ir.ParseDType(typ.Name)
		if err != nil {
			t.Fatal(err)
		}
		if dt.BlockElems() != typ.BlockElements || dt.BlockBytes() != typ.BlockBytes {
			t.Errorf("%s: geometry %d/%d, ggml has %d/%d", dt, dt.BlockElems(), dt.BlockBytes(),
				typ.BlockElements, typ.BlockBytes)
		}
		for _, c := range typ.Cases {
			if c.Dequantized == nil {
				continue
			}
			seen[dt] = true
			t.Run(typ.Name+"/"+c.Input, func(t *testing.T) {
				got := make([]float32, len(c.Dequantized))
				if err := Dequantize(got, dt, c.Blocks); err != nil {
					t.Fatal(err)
				}
				compareBits(t, got, c.Dequantized)
			})
		}
	}
	for _, dt := range ir.DTypes() {
		if dt.IsBlock() && !seen[dt] && !noVectors[dt] {
			t.Errorf("no vectors decode %s", dt)
		}
	}
}

// ownSearch are the formats with other blocks than ggml's: with a codebook there are many choices, and this package has
// its own search.
var ownSearch = map[ir.DType]bool{
	ir.IQ1_S: true, ir.IQ1_M: true,
	ir.IQ2_XXS: true, ir.IQ2_XS: true, ir.IQ2_S: true,
	ir.IQ3_XXS: true, ir.IQ3_S: true,
}

// TestGoldenError checks that formats with their own search never have a larger error than ggml's blocks.
func TestGoldenError(t *testing.T) {
	v := readVectors(t)
	seen := 0
	for _, typ := range v.Types {
		dt, err := ir.ParseDType(typ.Name)
		if err != nil {
			t.Fatal(err)
		}
		if !ownSearch[dt] {
			continue
		}
		seen++
		for _, c := range typ.Cases {
			t.Run(typ.Name+"/"+c.Input, func(t *testing.T) {
				x := v.Inputs[c.Input]
				got, ggml := relativeRMSE(quantizeDequantize(t, dt, x), x), relativeRMSE(c.Dequantized, x)
				t.Logf("relative RMSE %.4f, ggml %.4f, ratio %.4f", got, ggml, got/ggml)
				if !(got <= ggml) {
					t.Errorf("relative RMSE %g is above ggml's %g", got, ggml)
				}
			})
		}
	}
	if seen != len(ownSearch) {
		t.Errorf("vectors for %d formats, want %d", seen, len(ownSearch))
	}
}

// relativeRMSE returns the root of the squared error of y divided by the squared error of zeros.
func relativeRMSE(y, x []float32) float64 {
	var e, total float64
	for i, v := range x {
		d := float64(y[i]) - float64(v)
		e += d * d
		total += float64(v) * float64(v)
	}
	return math.Sqrt(e / total)
}

// TestGoldenQuantize compares every quantizer with ggml's blocks, except those of ownSearch.
func TestGoldenQuantize(t *testing.T) {
	seen := map[ir.DType]bool{}
	v := readVectors(t)
	for _, typ := range v.Types {
		dt, err := ir.ParseDType(typ.Name)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := Supported(dt); !ok || ownSearch[dt] {
			continue
		}
		for _, c := range typ.Cases {
			seen[dt] = true
			t.Run(typ.Name+"/"+c.Input, func(t *testing.T) {
				got := bytes.Repeat([]byte{0xa5}, len(c.Blocks)) // nothing may rely on a zeroed dst
				if err := Quantize(got, dt, v.Inputs[c.Input], nil); err != nil {
					t.Fatal(err)
				}
				compareBlocks(t, got, c.Blocks, dt.BlockBytes())
			})
		}
	}
	for _, dt := range ir.DTypes() {
		if _, ok := Supported(dt); ok && !seen[dt] && !ownSearch[dt] && dt != ir.Q8_K {
			t.Errorf("no vectors quantize %s", dt)
		}
	}
}

func compareBits(t *testing.T, got, want []float32) {
	t.Helper()
	bad := 0
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			if bad++; bad <= 5 {
				t.Errorf("element %d is %v (%#x), want %v (%#x)", i,
					got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
			}
		}
	}
	if bad > 5 {
		t.Errorf("%d of %d elements differ", bad, len(want))
	}
}

func compareBlocks(t *testing.T, got, want []byte, size int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d bytes, want %d", len(got), len(want))
	}
	for i := 0; i < len(want); i += size {
		if !bytes.Equal(got[i:i+size], want[i:i+size]) {
			t.Errorf("block %d\n got %x\nwant %x", i/size, got[i:i+size], want[i:i+size])
		}
	}
}
