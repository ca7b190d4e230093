package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// setRope translates the rotary positions: the base of the angles, the number of rotated elements, and the scaling for
// long texts. Newer folders have all three in rope_parameters. Older folders have the scaling in rope_scaling, and the
// rest in the configuration itself.
func (c *folderConfig) setRope(a architecture) {
	if a.rope == notRotary {
		delete(c.set, "rope.freq_base")
		return
	}
	heads := max(c.size("attention.head_count", 1), 1)
	dims := c.size("attention.key_length", c.size("embedding_length", 0)/heads)
	if c.values["head_dim"] != nil && c.size("attention.key_length", 0) > 0 { // values are as long as keys
		c.set["attention.value_length"] = c.set["attention.key_length"]
	}
	scaling, ok := c.values["rope_parameters"].(map[string]any)
	// The parameters of layers with and without a window may be apart.
	if full, nested := scaling["full_attention"].(map[string]any); nested {
		if local, ok := scaling["sliding_attention"].(map[string]any); ok && local["rope_theta"] != nil {
			c.setFloat("rope.freq_base_swa", c.numberIn(local, "rope_theta"))
		}
		scaling = full
	}
	if !ok {
		scaling, ok = c.values["rope_scaling"].(map[string]any)
	}
	rotated := c.rotatedDims(scaling, dims)
	c.setSize("rope.dimension_count", float64(rotated))
	if !ok {
		return
	}
	if list, ok := scaling["mrope_section"].([]any); ok {
		c.setSections(list)
	}
	if scaling["rope_theta"] != nil {
		c.setFloat("rope.freq_base", c.numberIn(scaling, "rope_theta"))
	}
	c.setScaling(a, scaling, dims, rotated)
}

// setScaling translates the scaling of rotary positions for long texts. dims is the number of elements of a head, and
// rotated the number of elements that are rotated.
func (c *folderConfig) setScaling(a architecture, scaling map[string]any, dims, rotated int) {
	trained := c.size("context_length", 0) // the number of positions before the scaling
	if name := "original_max_position_embeddings"; scaling[name] != nil {
		trained = int(c.numberIn(scaling, name))
	} else if c.values[name] != nil {
		trained = int(c.number(name))
	}
	switch kind, _ := cmp.Or(scaling["rope_type"], scaling["type"], any("default")).(string); kind {
	case "default", "mrope", "dynamic": // dynamic changes nothing within the context that the model was trained for
	case "proportional": // the other pairs of a head have angles of 0
		factors := make([]float32, min(dims, maxHeadDim)/2)
		for i := range factors {
			factors[i] = 1
			if i >= rotated/2 {
				factors[i] = 1e30 // it divides the angle, so that the angle is 0
			}
		}
		c.setSize("rope.dimension_count", float64(dims))
		c.more = append(c.more, Origin{Name: ropeFreqs, Values: factors})
	case "linear":
		c.set["rope.scaling.type"] = "linear"
		c.setFloat("rope.scaling.factor", c.numberIn(scaling, "factor"))
	case "yarn":
		c.setYaRN(a, scaling, trained)
	case "llama3":
		c.setLlama3(scaling, rotated, trained)
	case "longrope", "su":
		c.setLongRope(scaling, trained)
	default:
		c.fail("rotary positions scaled by %q are not supported: want default, dynamic, linear, llama3, longrope, "+
			"proportional or yarn", kind)
	}
}

// rotatedDims returns the number of elements of a head that are rotated. The folder may have it as a number or as a
// fraction of the head; otherwise it is the whole head.
func (c *folderConfig) rotatedDims(scaling map[string]any, headDim int) int {
	if scaling["partial_rotary_factor"] != nil {
		return int(float64(headDim) * c.numberIn(scaling, "partial_rotary_factor"))
	}
	if v := c.first([]string{"partial_rotary_factor", "rotary_pct", "rotary_emb_fraction"}); v != "" {
		return int(float64(headDim) * c.number(v))
	}
	if c.values["rotary_dim"] != nil {
		return int(c.number("rotary_dim"))
	}
	return headDim
}

// setSections translates the numbers of pairs that rotate by time, row and column; see Config.Sections.
func (c *folderConfig) setSections(list []any) {
	var pairs []int32
	for i := range min(len(list), 4) {
		n, _ := list[i].(json.Number)
		v, err := n.Int64()
		if err != nil || v < 0 || v > maxHeadDim {
			c.fail("mrope_section has %.40s: want numbers of pairs", fmt.Sprint(list[i]))
		}
		pairs = append(pairs, int32(v))
	}
	c.set["rope.dimension_sections"] = pairs
}

// setYaRN translates rope_scaling of type yarn (Peng et al. 2023, arXiv:2309.00071) to the metadata of GGUF files.
// trained is the number of positions before the scaling.
func (c *folderConfig) setYaRN(a architecture, scaling map[string]any, trained int) {
	factor := c.numberIn(scaling, "factor")
	c.set["rope.scaling.type"] = "yarn"
	c.setFloat("rope.scaling.factor", factor)
	c.setSize("rope.scaling.original_context_length", float64(trained))
	for key, name := range map[string]string{"yarn_beta_fast": "beta_fast", "yarn_beta_slow": "beta_slow"} {
		if scaling[name] != nil {
			c.setFloat("rope.scaling."+key, c.numberIn(scaling, name))
		}
	}
	own := float64(0.1*math.Log(factor)) + 1 // YaRN's own magnitude, by which the reader of the metadata multiplies
	if a.yarnKeepsMagnitude {
		own = 1
	}
	if scaling["attention_factor"] != nil { // it replaces own
		c.setFloat("rope.scaling.attn_factor", c.numberIn(scaling, "attention_factor")/own)
	}
	if scaling["mscale"] == nil && scaling["mscale_all_dim"] == nil {
		return
	}
	// GGUF's reader of this architecture expects a tenth of mscale.
	if a.yarnKeepsMagnitude && scaling["mscale"] != nil && scaling["mscale"] == scaling["mscale_all_dim"] {
		c.setFloat("rope.scaling.yarn_log_multiplier", 0.1*c.numberIn(scaling, "mscale"))
		return
	}
	if scaling["mscale"] == nil || c.numberIn(scaling, "mscale") != 1 || scaling["mscale_all_dim"] == nil {
		c.fail("rotary positions with an mscale other than 1, or without mscale_all_dim, are not supported")
		return
	}
	c.setFloat("rope.scaling.yarn_log_multiplier", c.numberIn(scaling, "mscale_all_dim"))
}

// setLlama3 computes Llama 3's factors of the rotary angles, from the number of turns that an angle makes in `trained`
// positions. An angle with at least high_freq_factor turns stays. An angle with at most low_freq_factor turns is
// divided by the factor. Between the two numbers of turns, the divisor changes smoothly. dims is the number of rotated
// elements of a head.
func (c *folderConfig) setLlama3(scaling map[string]any, dims, trained int) {
	factor, base := c.numberIn(scaling, "factor"), 10000.0
	low, high := c.numberIn(scaling, "low_freq_factor"), c.numberIn(scaling, "high_freq_factor")
	if v, ok := c.set["rope.freq_base"].(float32); ok {
		base = float64(v)
	}
	// The bound of dims limits the memory of the factors. Its error has no message of its own.
	if !(low > 0 && high > low && factor > 0) || dims > maxHeadDim {
		c.fail("rope_scaling has the factor %v from %v to %v: want positive numbers, the second below the third",
			factor, low, high)
		return
	}
	factors := make([]float32, dims/2)
	for i := range factors {
		wavelength := 2 * math.Pi * math.Pow(base, float64(2*i)/float64(dims))
		turns := float64(trained) / wavelength // in a sequence of the training
		switch smooth := (turns - low) / (high - low); {
		case turns >= high:
			factors[i] = 1
		case turns <= low:
			factors[i] = float32(factor)
		default:
			factors[i] = float32(1 / (float64((1-smooth)/factor) + smooth))
		}
	}
	c.more = append(c.more, Origin{Name: ropeFreqs, Values: factors})
}

// maxHeadDim bounds the elements of a head that are rotated.
const maxHeadDim = 1 << 16

// setLongRope translates the settings of LongRoPE (Ding et al. 2024, arXiv:2402.13753) to keys and weights of GGUF
// files. trained is the context length of the training.
func (c *folderConfig) setLongRope(scaling map[string]any, trained int) {
	for key, weight := range map[string]string{"short_factor": ropeShort, "long_factor": ropeLong} {
		list, _ := scaling[key].([]any)
		values := make([]float32, len(list))
		for i, v := range list {
			n, _ := v.(json.Number)
			f, err := n.Float64()
			if err != nil {
				c.fail("%s of rope_scaling has %.40s: want numbers", key, fmt.Sprint(v))
			}
			values[i] = float32(f)
		}
		if len(list) == 0 {
			c.fail("rope_scaling has no %s: want a list of numbers", key)
		}
		c.more = append(c.more, Origin{Name: weight, Values: values})
	}
	slices.SortFunc(c.more, func(a, b Origin) int { return strings.Compare(a.Name, b.Name) })
	c.set["rope.scaling.type"] = "longrope"
	c.setSize("rope.scaling.original_context_length", float64(trained))
	// The paper's factor for attention, unless the folder gives one.
	magnitude := 1.0
	if longer := float64(c.size("context_length", 0)) / float64(trained); longer > 1 {
		magnitude = math.Sqrt(1 + math.Log(longer)/math.Log(float64(trained)))
	}
	if scaling["attention_factor"] != nil {
		magnitude = c.numberIn(scaling, "attention_factor")
	}
	if scaling["long_mscale"] != nil {
		magnitude = c.numberIn(scaling, "long_mscale")
		if magnitude != c.numberIn(scaling, "short_mscale") {
			c.fail("rope_scaling has a long_mscale that is not the short_mscale, which is not supported")
		}
	}
	c.setFloat("rope.scaling.attn_factor", magnitude)
}
