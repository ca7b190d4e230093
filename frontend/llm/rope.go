package llm

import (
	"fmt"
	"math"

	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// Weights that hold factors of the rotary angles, one for each pair.
const (
	ropeFreqs = "rope_freqs.weight"         // Llama 3
	ropeShort = "rope_factors_short.weight" // LongRoPE (Ding et al. 2024, arXiv:2402.13753), of short texts
	ropeLong  = "rope_factors_long.weight"  // and of long ones
)

// ropeScaling reads how the angles of rotary positions differ from a plain
// geometric series.
func (r *metadata) ropeScaling(a architecture, c *Config) error {
	const key = "rope.scaling.factor"
	kind, err := r.f.String(r.prefix + "rope.scaling.type")
	scale := 1.0
	switch {
	case err != nil: // as files had it before there were types
		kind, scale = "linear", r.floatOr(key, r.floatOr("rope.scale_linear", 1))
	case kind == "linear" || kind == "yarn":
		scale = r.float(key)
	case kind != "longrope" && kind != "none":
		return fmt.Errorf("rotary positions scaled by %q are not supported: want linear, longrope, yarn or none", kind)
	}
	if r.err == nil && !(scale > 0) || math.IsInf(scale, 1) {
		return fmt.Errorf("metadata %q is %v: want how many times longer texts may be", r.prefix+key, scale)
	}
	trained := r.sizeOr("rope.scaling.original_context_length", c.Context)
	magnitude := r.floatOr("rope.scaling.attn_factor", 1)
	if r.err != nil {
		return r.err
	}
	scaled := plain(c.RopeDims/2, scale)
	if kind == "yarn" {
		if scaled, err = r.yarn(a, *c, scale, trained); err != nil {
			return err
		}
		magnitude *= 1 + 0.1*math.Log(scale)
	}
	if magnitude != 1 {
		c.RopeMagnitude = magnitude
	}
	first := ropeFreqs
	if r.f.HasWeight(ropeLong) {
		first, c.LongRopeFrom = ropeShort, trained
		if c.LongRopeFactors, err = r.factors(ropeLong, scaled); err != nil {
			return err
		}
	}
	c.RopeFactors, err = r.factors(first, scaled)
	return err
}

// factors multiplies the factors of a weight, if there is one, by those of
// scaled positions. It returns nil if all are 1.
func (r *metadata) factors(name string, scaled []float64) ([]float64, error) {
	if r.f.HasWeight(name) {
		d, err := r.f.Weight(name)
		if err != nil {
			return nil, err
		}
		if d.DType != ir.F32 || len(d.Dims) != 1 || d.Dims[0] != len(scaled) {
			return nil, fmt.Errorf("weight %q is %s%v: want f32[%d], a factor for each pair of elements that turns",
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

// plain is one factor for all pairs.
func plain(pairs int, factor float64) []float64 {
	list := make([]float64, pairs)
	for i := range list {
		list[i] = factor
	}
	return list
}

// yarn returns the factors of YaRN (Peng et al. 2023, arXiv:2309.00071) for texts
// scale times as long as those that a model was trained for: pairs that turn more
// than 32 times in such a text go on as they are, those that turn less than once
// are slowed down by the scale, and the others lie between.
func (r *metadata) yarn(a architecture, c Config, scale float64, trained int) ([]float64, error) {
	fast, slow := r.floatOr("rope.scaling.yarn_beta_fast", 32), r.floatOr("rope.scaling.yarn_beta_slow", 1)
	pairs := c.RopeDims / 2
	pair := func(turns float64) float64 { // which pair turns that often in a text
		return float64(pairs) * math.Log(float64(trained)/(turns*2*math.Pi)) / math.Log(c.RopeBase)
	}
	low, high := pair(fast), pair(slow)
	if !a.exactYaRN {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(c.RopeDims-1))
	factors := make([]float64, pairs)
	for i := range factors {
		slowed := min(max((float64(i)-low)/max(high-low, 0.001), 0), 1)
		factors[i] = 1 / (slowed/scale + 1 - slowed)
	}
	return factors, r.err
}

// checkFactors refuses factors of which no angle can be made.
func (c Config) checkFactors() error {
	for _, list := range [][]float64{c.RopeFactors, c.LongRopeFactors} {
		for i, f := range list {
			if !(f > 0) || math.IsInf(f, 1) {
				return fmt.Errorf("factor %d of the rotary angles is %v: want a positive number", i, f)
			}
		}
	}
	if m := c.RopeMagnitude; !(m >= 0) || math.IsInf(m, 1) {
		return fmt.Errorf("what has turned is multiplied by %v: want a positive number", m)
	}
	return nil
}
