package quant

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// gridFormats are the formats that share gridfit.go.
var gridFormats = map[ir.DType]*gridFormat{
	ir.IQ1_S:   &gridFormatIQ1_S,
	ir.IQ1_M:   &gridFormatIQ1_M,
	ir.IQ2_XXS: &gridFormatIQ2_XXS,
	ir.IQ2_XS:  &gridFormatIQ2_XS,
	ir.IQ2_S:   &gridFormatIQ2_S,
	ir.IQ3_XXS: &gridFormatIQ3_XXS,
	ir.IQ3_S:   &gridFormatIQ3_S,
}

// TestCodebookNearest compares the search with a trial of every entry.
func TestCodebookNearest(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for dt, f := range gridFormats {
		t.Run(dt.String(), func(t *testing.T) {
			c := f.book()
			targets, w := make([]float32, c.elems), make([]float32, c.elems)
			for range 300 {
				for i := range targets {
					targets[i] = c.top * float32(rng.NormFloat64())
					w[i] = rng.Float32()
				}
				const scale = 0.9
				var q quarterCosts
				q.set(c.elems, &c.levels, scale, targets, w)
				pos, cost := c.nearest(&q, rng.IntN(len(c.order)))
				least := math.Inf(1)
				for e := range c.order {
					least = min(least, entryCost(c, e, scale, targets, w))
				}
				if got := entryCost(c, pos, scale, targets, w); got > least*(1+1e-5) {
					t.Fatalf("entry %d costs %g, the cheapest %g", pos, got, least)
				}
				if math.Abs(float64(cost)-least) > 1e-5*least {
					t.Fatalf("cost %g, want %g", cost, least)
				}
			}
		})
	}
}

func entryCost(c *codebook, e int, scale float64, targets, w []float32) (cost float64) {
	for i, v := range targets {
		d := float64(v) - scale*float64(c.levels[c.digits[e][i]])
		cost += float64(w[i]) * d * d
	}
	return cost
}

// TestCodebookTables checks that arranging a table keeps its entries.
func TestCodebookTables(t *testing.T) {
	for _, tc := range []struct {
		f    *gridFormat
		size int
		at   func(e, i int) int8
	}{
		{&gridFormatIQ1_S, 2048, func(e, i int) int8 { return int8(gridIQ1S[e] >> (8 * i)) }},
		{&gridFormatIQ2_XXS, 256, func(e, i int) int8 { return int8(gridIQ2XXS[e] >> (8 * i)) }},
		{&gridFormatIQ2_XS, 512, func(e, i int) int8 { return int8(gridIQ2XS[e] >> (8 * i)) }},
		{&gridFormatIQ2_S, 1024, func(e, i int) int8 { return int8(gridIQ2S[e] >> (8 * i)) }},
		{&gridFormatIQ3_XXS, 256, func(e, i int) int8 { return int8(gridIQ3XXS[e] >> (8 * i)) }},
		{&gridFormatIQ3_S, 512, func(e, i int) int8 { return int8(gridIQ3S[e] >> (8 * i)) }},
	} {
		c := tc.f.book()
		if len(c.order) != tc.size {
			t.Errorf("%d entries, want %d", len(c.order), tc.size)
		}
		seen := map[uint16]bool{}
		for pos, e := range c.index {
			seen[e] = true
			for i := range c.elems {
				if got, want := c.levels[c.digits[pos][i]], float32(tc.at(int(e), i)); got != want {
					t.Fatalf("entry %d element %d is %v, want %v", e, i, got, want)
				}
			}
		}
		if len(seen) != tc.size {
			t.Errorf("%d different entries, want %d", len(seen), tc.size)
		}
	}
}

// TestGridRoundTrip checks that a block which a format can hold exactly comes
// back: its levels are the entries of a codebook at one scale.
func TestGridRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for dt, f := range gridFormats {
		t.Run(dt.String(), func(t *testing.T) {
			c := f.book()
			var x [256]float32
			offset := float32(0)
			if f.offsets > 0 {
				offset = 0.125
			}
			for i := 0; i < len(x); i += c.elems {
				for j, digit := range c.digits[rng.IntN(len(c.order))][:c.elems] {
					x[i+j] = (c.levels[digit] + offset) * f.unit * float32(2*f.steps-1)
				}
			}
			if e := relativeRMSE(quantizeDequantize(t, dt, x[:]), x[:]); !(e < 1e-3) {
				t.Errorf("relative RMSE %g of a block that fits exactly", e)
			}
		})
	}
}
