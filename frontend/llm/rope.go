package llm

import (
	"cmp"
	"fmt"
	"math"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// Names of weights with a factor for each rotary angle.
const (
	ropeFreqs = "rope_freqs.weight"         // Llama 3
	ropeShort = "rope_factors_short.weight" // LongRoPE (Ding et al. 2024, arXiv:2402.13753), for short texts
	ropeLong  = "rope_factors_long.weight"  // for long texts
)

// ropeScaling reads the scaling of rotary angles, by which a model reads longer texts than it was trained on. It sets
// the factors of the angles and the magnitude in c.
func (r *metadata) ropeScaling(a architecture, c *Config) error {
	const key = "rope.scaling.factor"
	kind, err := r.f.String(r.prefix + "rope.scaling.type")
	scale := 1.0
	switch {
	case err != nil: // an old file, which has no type of scaling
		kind, scale = "linear", r.floatOr(key, r.floatOr("rope.scale_linear", 1))
	case kind == "linear" || kind == "yarn":
		scale = r.float(key)
	case kind != "longrope" && kind != "none":
		return fmt.Errorf("rotary positions scaled by %q are not supported: want linear, longrope, yarn or none", kind)
	}
	if r.err == nil && (!(scale > 0) || math.IsInf(scale, 1)) {
		return fmt.Errorf("metadata %q is %v: want the factor by which texts may be longer", r.prefix+key, scale)
	}
	trained := r.sizeOr("rope.scaling.original_context_length", c.Context) // the length of texts in training
	magnitude := cmp.Or(c.RopeMagnitude, 1) * r.floatOr("rope.scaling.attn_factor", 1)
	fast, slow := r.floatOr("rope.scaling.yarn_beta_fast", 32), r.floatOr("rope.scaling.yarn_beta_slow", 1)
	if r.err != nil {
		return r.err
	}
	scaled := frontend.RopeLinear(c.RopeDims, scale) // the factors by the metadata; the file may have a table of others
	if kind == "yarn" {
		yarn := frontend.YaRN{Times: scale, Trained: trained, Fast: fast, Slow: slow, Exact: a.exactYaRN}
		scaled = yarn.Factors(c.RopeDims, c.RopeBase)
		if !a.yarnKeepsMagnitude {
			magnitude *= yarn.Magnitude()
		}
	}
	c.RopeMagnitude = magnitude
	if magnitude == 1 {
		c.RopeMagnitude = 0 // it means 1, as in models without scaling
	}
	first := ropeFreqs
	if r.f.HasWeight(ropeLong) { // longrope has two tables of factors, for short and for long texts
		first, c.LongRopeFrom = ropeShort, trained
		if c.LongRopeFactors, err = r.factors(ropeLong, scaled); err != nil {
			return err
		}
	}
	c.RopeFactors, err = r.factors(first, scaled)
	return err
}

// factors returns the factors of the rotary angles: scaled, multiplied by the factors in the weight of that name if the
// file has it. Without the weight, the result is nil if all factors are 1.
func (r *metadata) factors(name string, scaled []float64) ([]float64, error) {
	if r.f.HasWeight(name) {
		d, err := r.f.Weight(name)
		if err != nil {
			return nil, err
		}
		if d.DType != ir.F32 || len(d.Dims) != 1 || d.Dims[0] != len(scaled) {
			return nil, fmt.Errorf("weight %q is %s%v: want f32[%d], one factor per rotated pair",
				name, d.DType, d.Dims, len(scaled))
		}
		var own []float64
		if err := mmap.Guard(func() (err error) { own, err = d.Floats(); return err }); err != nil {
			return nil, err
		}
		for i, f := range own {
			own[i] = f * scaled[i]
		}
		return own, nil
	}
	for _, f := range scaled {
		if f != 1 {
			return scaled, nil
		}
	}
	return nil, nil
}

// checkFactors returns an error if a factor gives no valid angle.
func (c Config) checkFactors() error {
	for _, list := range [][]float64{c.RopeFactors, c.LongRopeFactors} {
		for i, f := range list {
			if !(f > 0) || math.IsInf(f, 1) {
				return fmt.Errorf("factor %d of the rotary angles is %v: want a positive number", i, f)
			}
		}
	}
	if m := c.RopeMagnitude; !(m >= 0) || math.IsInf(m, 1) {
		return fmt.Errorf("the factor of rotated elements is %v: want a positive number", m)
	}
	return nil
}
