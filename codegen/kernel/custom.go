package kernel

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// FamilyCustom is a whole compute shader that the user provides; see ir.CustomKernel.
const FamilyCustom Family = "custom"

// VarCustom runs a custom kernel with the workgroup and grid of its op.
const VarCustom Variant = "custom"

// Custom is the call of a custom op that a kernel of FamilyCustom computes. The kernel's bindings are the arguments,
// then the results, in the op's order. If the kernel uses symbols, the last binding has their values.
type Custom struct {
	Op    ir.Op
	Attrs ir.Attrs
	// Types are the types of arguments and results, by binding.
	Types []ir.Type
	// Args is the number of arguments.
	Args int
}

// Kernel returns the kernel that the user registered.
func (c *Custom) Kernel() *ir.CustomKernel { return c.Op.Info().Custom.Kernel }

// Name returns the name of binding i in the shader source.
func (c *Custom) Name(i int) string {
	op := c.Op.Info().Custom
	if i < c.Args {
		return op.Args[i].Name
	}
	return op.Kernel.Outputs[i-c.Args]
}

// Zeroed reports whether binding i is a result that is cleared before the kernel begins.
func (c *Custom) Zeroed(i int) bool {
	return i >= c.Args && slices.Contains(c.Kernel().Zeroed, c.Name(i))
}

// SizeName returns the name, in the shader source, of a tensor's number of elements.
func SizeName(tensor string) string { return tensor + "_size" }

// DimName returns the name, in the shader source, of a tensor's extent along an axis.
func DimName(tensor string, axis int) string { return fmt.Sprintf("%s_dim%d", tensor, axis) }

// Symbols returns the symbols of the extents that the shader source mentions, in order of first use.
func (c *Custom) Symbols() []string {
	var names []string
	seen := map[string]bool{"": true}
	for i, t := range c.Types {
		for axis, d := range t.Shape {
			mentioned := c.Kernel().Mentions(DimName(c.Name(i), axis)) || c.Kernel().Mentions(SizeName(c.Name(i)))
			if mentioned && !seen[d.Sym] {
				seen[d.Sym] = true
				names = append(names, d.Sym)
			}
		}
	}
	return names
}

// Grid returns the workgroup counts of the op's grid rule. It fails if a rule is not a product of ceil(extent/tile),
// and the error names that rule.
func (c *Custom) Grid() (Grid, error) {
	var g Grid
	for dim, rules := range c.Kernel().Grid {
		g[dim] = []GridFactor{}
		for _, r := range rules {
			factors, err := c.gridFactors(r)
			if err != nil {
				return g, fmt.Errorf("custom op %s: grid dimension %d: %w", c.Op, dim, err)
			}
			g[dim] = append(g[dim], factors...)
		}
	}
	return g, nil
}

// gridFactors returns the factors of one rule: the named tensor's extent along an axis, or its number of elements.
func (c *Custom) gridFactors(r ir.GridRule) ([]GridFactor, error) {
	for i, t := range c.Types {
		if c.Name(i) != r.Of {
			continue
		}
		if r.Axis != ir.AllAxes {
			axis, err := ir.ResolveAxis(int64(r.Axis), len(t.Shape))
			if err != nil {
				return nil, fmt.Errorf("%s is %s: %w", r.Of, t, err)
			}
			return []GridFactor{{Extent: t.Shape[axis], Tile: int64(r.Tile)}}, nil
		}
		n, err := t.Shape.Numel() // err: no dim can express the number
		if err != nil && r.Tile > 1 {
			return nil, fmt.Errorf("the number of elements of %s, %s, cannot be divided into tiles: %w; give an "+
				"axis, or a tile of 1", r.Of, t, err)
		}
		if err == nil {
			return []GridFactor{{Extent: n, Tile: int64(r.Tile)}}, nil
		}
		// The grid multiplies the extents instead.
		var each []GridFactor
		for _, d := range t.Shape {
			each = append(each, GridFactor{Extent: d, Tile: 1})
		}
		return each, nil
	}
	return nil, fmt.Errorf("no argument or output %q", r.Of)
}

// Constants returns the specialization constants of a kernel given as a module. Each is an int64, float64 or bool.
func (c *Custom) Constants() ([]any, error) {
	known := map[string]any{}
	for _, a := range c.Attrs {
		known[a.Name] = a.Value
	}
	symbolic := map[string]ir.Type{} // by name of an extent that depends on a symbol: the tensor, for an error
	for i, t := range c.Types {
		for axis, d := range t.Shape {
			name := DimName(c.Name(i), axis)
			known[name] = d.Add
			if !d.IsStatic() {
				symbolic[name] = t
			}
		}
		size := SizeName(c.Name(i))
		known[size] = t.Shape.MaxElems()
		if !t.Shape.IsStatic() {
			symbolic[size] = t
		}
	}
	var values []any
	for _, name := range c.Kernel().Constants {
		if t, ok := symbolic[name]; ok {
			return nil, fmt.Errorf("constant %s of custom op %s: the extent of %s depends on a symbol: take it from "+
				"the number of workgroups, or give the tensor a fixed extent", name, c.Op, t)
		}
		if known[name] == nil {
			return nil, fmt.Errorf("constant %s of custom op %s: the tensor has no such axis", name, c.Op)
		}
		values = append(values, known[name])
	}
	return values, nil
}

// describe prints the call for a listing of kernels.
func (c *Custom) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "custom %s %s", c.Op, c.Op.Info().Custom.Definition())
	for _, a := range c.Attrs {
		fmt.Fprintf(&b, " %s=%s", a.Name, ir.FormatAttr(a.Value))
	}
	for i, t := range c.Types {
		fmt.Fprintf(&b, " %s:%s", c.Name(i), t)
	}
	return b.String()
}
