package llm

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// ignoredWeights lists weights that files may have but no model needs.
var ignoredWeights = []string{"attn_rot_embd.weight"} // the angles of rotary embeddings, which RopeBase determines

// check returns an error if the numbers of the configuration contradict each other, or if the weights do not fit them.
func (c Config) check(a architecture) error {
	if err := c.checkSizes(a); err != nil {
		return err
	}
	if err := c.checkExperts(a); err != nil {
		return err
	}
	if err := c.checkScales(); err != nil {
		return err
	}
	for i := range max(1, len(c.PerLayer)) { // without PerLayer, all layers have the sizes of layer 0
		if l := c.at(i); l.KVHeads > 0 && (l.Heads == 0 || l.Heads%l.KVHeads != 0) {
			return fmt.Errorf("%d query heads are not a multiple of %d key heads", l.Heads, l.KVHeads)
		}
	}
	if err := c.Recurrent.check(); err != nil {
		return err
	}
	return c.checkWeights(a)
}

// checkSizes checks the sizes of heads, the rotary positions and the vocabulary.
func (c Config) checkSizes(a architecture) error {
	switch {
	case c.HeadDim < 1:
		return fmt.Errorf("%d heads in a width of %d leave no element per head", c.Heads, c.Width)
	case c.ValueDim != 0 && !a.latent:
		return fmt.Errorf("values of %d elements with keys of %d are not supported in architecture %q", c.ValueDim,
			c.HeadDim, a.name)
	case a.latent && (c.RopeDims >= c.HeadDim || c.Latent < 1):
		return fmt.Errorf("keys of %d elements, %d of them rotated, and a latent vector of %d: want at least one "+
			"element of each kind", c.HeadDim, c.RopeDims, c.Latent)
	case c.SharedKV < 0 || c.SharedKV > 0 && c.keysOf(c.Layers-1) == c.Layers-1:
		return fmt.Errorf("the last %d of %d layers share keys and values with earlier ones: want an earlier layer of "+
			"the same kind, with or without a window", c.SharedKV, c.Layers)
	case a.split != nil && c.Streams < 2:
		return fmt.Errorf("the residual stream has %d parts: want at least 2", c.Streams)
	case c.Vocab < 1:
		return fmt.Errorf("the token embedding %q is missing, empty, or not a matrix", tokenTable+".weight")
	case a.rope != notRotary && (c.RopeDims%2 != 0 || c.RopeDims > c.HeadDim):
		return fmt.Errorf("cannot rotate %d elements of a head of %d: want an even number, at most all",
			c.RopeDims, c.HeadDim)
	case c.LocalRopeDims%2 != 0 || c.LocalRopeDims > c.LocalHeadDim:
		return fmt.Errorf("cannot rotate %d elements of a head of %d in layers with a window: want an even number, at "+
			"most all", c.LocalRopeDims, c.LocalHeadDim)
	case c.PerLayerWidth < 0:
		return fmt.Errorf("the embeddings of each layer have %d elements: want 0 or more", c.PerLayerWidth)
	case !(c.NormEps >= 0 && c.NormEps < 1):
		return fmt.Errorf("the epsilon of the norms is %v: want 0 to 1", c.NormEps)
	case a.rope != notRotary && (!(c.RopeBase > 0) || math.IsInf(c.RopeBase, 1)):
		return fmt.Errorf("the base of the rotary embedding is %v: want a positive number", c.RopeBase)
	case c.Window > 0 && a.encoder && c.WindowPeriod == 0 && c.WindowLayers == nil:
		return fmt.Errorf("a window of %d tokens: architecture %q has no windows", c.Window, a.name)
	}
	return nil
}

// checkExperts checks the numbers of a mixture of experts: experts, experts per token, layers without experts, and
// groups.
func (c Config) checkExperts(a architecture) error {
	switch {
	case c.Experts > 0 && !a.experts:
		return fmt.Errorf("%d experts: architecture %q has none", c.Experts, a.name)
	case c.DenseLayers < 0 || c.DenseLayers > c.Layers || c.ExpertPeriod < 0:
		return fmt.Errorf("the first %d of %d layers have no experts, and then only every %d-th has: want 0 to all",
			c.DenseLayers, c.Layers, c.ExpertPeriod)
	case c.SharedFeedForward < 0 || c.SharedFeedForward > math.MaxInt32:
		return fmt.Errorf("the shared expert has %d hidden elements: want 0 to %d", c.SharedFeedForward, math.MaxInt32)
	case c.Experts < 0 || c.Experts > 0 && (c.ExpertsUsed < 1 || c.ExpertsUsed > c.Experts):
		return fmt.Errorf("each token goes to %d of %d experts: want 1 to all", c.ExpertsUsed, c.Experts)
	}
	g := c.ExpertGroups
	if g == 0 {
		return nil
	}
	if c.Experts%g != 0 || c.ExpertGroupsUsed > g || c.ExpertsUsed > c.ExpertGroupsUsed*(c.Experts/g) {
		return fmt.Errorf("each token goes to %d experts, of %d of %d groups of %d experts: want groups of one size, "+
			"with enough experts", c.ExpertsUsed, c.ExpertGroupsUsed, g, c.Experts)
	}
	return nil
}

// checkScales checks the factors and bounds: each is positive, or 0 for none.
func (c Config) checkScales() error {
	for _, n := range []struct {
		what  string
		value float64
	}{
		{"scale of attention", c.AttentionScale}, {"softcap of attention", c.AttentionSoftcap},
		{"scale of embeddings", c.EmbeddingScale}, {"scale of residuals", c.ResidualScale},
		{"scale of the logits", c.LogitScale}, {"scale of the experts' weights", c.ExpertScale},
		{"temperature of attention", c.TemperatureScale}, {"largest bias of ALiBi", c.MaxALiBi},
		{"bound of queries, keys and values", c.ClampQKV},
		{"softcap of the logits", c.LogitSoftcap}, {"base of the local rotary embedding", c.LocalRopeBase},
	} {
		if !(n.value >= 0) || math.IsInf(n.value, 1) {
			return fmt.Errorf("the %s is %v: want a positive number, or 0 for none", n.what, n.value)
		}
	}
	return nil
}

// checkWeights checks that the file has exactly the weights of the architecture. With others, the graph would compute
// something else than the model.
func (c Config) checkWeights(a architecture) error {
	top := a.modelWeights(c)
	for _, p := range top {
		if err := c.checkSpec("", p); err != nil {
			return err
		}
	}
	// Layers comes from the file and may be absurd. That is safe, because the first missing weight ends the loop.
	for i := range c.Layers {
		for _, p := range a.allLayerWeights(c.at(i)) {
			if err := c.checkSpec(fmt.Sprintf("blk.%d.", i), p); err != nil {
				return err
			}
		}
	}
	return c.refuseOtherWeights(a, top)
}

// checkSpec checks a weight and its bias. prefix is the layer's.
func (c Config) checkSpec(prefix string, p weightSpec) error {
	if p.onlyBias {
		return c.checkWeight(prefix+p.name+".bias", p.bias, !p.optional)
	}
	if err := c.checkWeight(prefix+p.weight(), p.shape, !p.optional); err != nil {
		return err
	}
	if p.linear {
		if err := c.checkLinear(prefix+p.name, p.shape); err != nil {
			return err
		}
	}
	if p.bias == nil {
		return nil
	}
	return c.checkWeight(prefix+p.name+".bias", p.bias, false)
}

// checkLinear checks two tensors that a file may have for a matrix or a stack of matrices: the order of its columns,
// and its scales; see nn.Linear. shape is the matrix's.
func (c Config) checkLinear(name string, shape ir.Shape) error {
	last := len(shape) - 1
	// The shape without the axis of rows: each matrix of a stack has an order.
	columns := ir.Type{DType: ir.I32, Shape: append(slices.Clone(shape[:last-1]), shape[last])}
	if order, ok := c.Types[name+orderSuffix]; ok && !order.Equal(columns) {
		return fmt.Errorf("weight %q is %s: want %s, one element per input column", name+orderSuffix, order,
			columns)
	}
	scale, ok := c.Types[name+scaleSuffix]
	if !ok {
		return nil
	}
	perRow := len(scale.Shape) == len(shape) && scale.Shape[:last].Equal(shape[:last])
	if perRow && scale.DType.IsFloat() {
		groups := scale.Shape[last].Static() // 1 is one scale for the whole row
		inBlocks := c.Types[name+".weight"].DType.IsBlock()
		if groups == 1 || groups > 1 && shape[last].Static()%groups == 0 && !inBlocks {
			return nil
		}
	}
	return fmt.Errorf("weight %q is %s, for a matrix %s of %s: want floats for each row, and for whole groups of "+
		"columns if the matrix is not in blocks", name+scaleSuffix, scale, shape, c.Types[name+".weight"].DType)
}

// refuseOtherWeights returns an error if the file has weights that are not part of the architecture.
func (c Config) refuseOtherWeights(a architecture, top []weightSpec) error {
	known := map[string]bool{ropeFreqs: true, ropeShort: true, ropeLong: true}
	add := func(prefix string, list []weightSpec) {
		for _, p := range list {
			known[prefix+p.weight()] = !p.onlyBias
			known[prefix+p.name+".bias"] = p.bias != nil
			if p.linear {
				known[prefix+p.name+orderSuffix] = true
				known[prefix+p.name+scaleSuffix] = true
			}
		}
	}
	add("", top)
	for i := range c.Layers {
		prefix := fmt.Sprintf("blk.%d.", i)
		add(prefix, a.allLayerWeights(c.at(i)))
		for _, name := range ignoredWeights {
			known[prefix+name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Types)) {
		if !known[name] && !c.inDraftLayer(name) {
			return fmt.Errorf("weight %q: vkc does not know this weight in a model of %d layers of architecture %q, "+
				"and its graph would compute something else without it", name, c.Layers, a.name)
		}
	}
	return nil
}

// inDraftLayer reports whether a weight belongs to a layer that predicts a further token. Such layers follow the
// others, and the model works without them.
func (c Config) inDraftLayer(name string) bool {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, _, _ := strings.Cut(rest, ".")
	i, err := strconv.Atoi(number)
	return ok && err == nil && i >= c.Layers && i < c.Layers+c.DraftLayers
}

// checkWeight returns an error unless the file has the weight with the wanted shape, or lacks a weight that is not
// required.
func (c Config) checkWeight(name string, want ir.Shape, required bool) error {
	have, ok := c.Types[name]
	switch {
	case !ok && !required:
		return nil
	case !ok:
		return fmt.Errorf("there is no weight %q, want %s", name, want)
	case !have.Shape.Equal(want):
		return fmt.Errorf("weight %q is %s: want %s", name, have.Shape, want)
	case have.DType.IsFloat(), have.DType.IsBlock() && len(want) > 1:
		return nil
	case !have.DType.Valid():
		return fmt.Errorf("weight %q has a type that is not supported: convert the model to another", name)
	}
	return fmt.Errorf("weight %q is %s: want a float type, or for a matrix a quantized one", name, have.DType)
}
