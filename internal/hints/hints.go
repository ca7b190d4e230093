// Package hints finds what usually makes a program slow or large, and has a faster form. It needs no device.
package hints

import (
	"context"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
)

// Hint is advice about a program, in one line.
type Hint struct {
	Name string `json:"name"` // of the rule
	Text string `json:"text"`
	Page string `json:"page"` // the page of the documentation that helps
}

// program is the input of the rules.
type program struct {
	graph   *ir.Graph
	caps    device.Caps
	symbols map[string]int64 // the values that the user gave
	low     *compiler.Lowered
}

// rule finds one kind of problem. find returns the hint's text, or "" if the program does not have the problem.
type rule struct {
	name, page string
	find       func(*program) string
}

// rules has a row for each hint.
var rules = []rule{
	{"expansion", "docs/GUIDE.md#when-it-is-slow", func(p *program) string { return p.graph.Expansion() }},
	{"launches", "docs/PERFORMANCE.md#what-to-do-when-something-is-slow", launchBound},
	{"weights", "docs/PERFORMANCE.md#what-to-do-when-something-is-slow", columnWeights},
	{"f64", "docs/SEMANTICS.md#numbers", slowDoubles},
	{"symbols", "docs/GUIDE.md#symbolic-extents", wideSymbols},
}

// Of returns hints on how to change a graph so that it runs faster on a device. symbols has the values of the graph's
// symbols in typical runs, if they are known.
func Of(ctx context.Context, g *ir.Graph, caps device.Caps, tuning device.Tuning,
	symbols map[string]int64) ([]Hint, error) {
	low, err := compiler.Lower(ctx, g, caps, tuning)
	if err != nil {
		return nil, err
	}
	p := &program{graph: g, caps: caps, symbols: symbols, low: low}
	hints := []Hint{} // not nil: JSON must have a list
	for _, r := range rules {
		if text := r.find(p); text != "" {
			hints = append(hints, Hint{Name: r.name, Text: text, Page: r.page})
		}
	}
	return hints, nil
}

// fewLaunches is the number of kernels from which their launches matter.
const fewLaunches = 8

// launchBound finds a program with many kernels that all take less time than their launch.
func launchBound(p *program) string {
	pricer, launch := schedule.NewPricer(p.caps), device.MachineOf(p.caps).LaunchNs
	kernels, work := 0, 0.0
	for i, k := range p.low.Kernels {
		if i < p.low.Program.Prepared {
			continue
		}
		e := pricer.Price(kernel.Rewrite{After: []*kernel.Kernel{k}, LastSplit: true})
		own := e.After - launch // the estimate includes a launch
		if e.Note != "" || own > launch {
			return ""
		}
		kernels++
		work += max(own, 0)
	}
	if kernels < fewLaunches || len(p.low.Program.Persistent) > 0 {
		return ""
	}
	return fmt.Sprintf("each of the %d kernels takes less time than its launch, %.1f us (%.1f us of work in all): "+
		"give a run more rows, such as a batch", kernels, launch/1e3, work/1e3)
}

// columnWeights returns a hint if matmuls read weights of one-byte elements in the order [K, N], or "".
func columnWeights(p *program) string {
	live := p.graph.Live()
	var found []*ir.Node
	for _, n := range p.graph.Nodes() {
		if n.Op() != ir.OpMatMul || !live[n.ID()] || n.Attrs().Bool("transpose_b") {
			continue
		}
		w := stored(n.Arg(1))
		if w != nil && w.Rank() >= 2 && isByte(w.DType()) && !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("%s%s is %s in the order [K, N]: a matmul reads bytes faster as [N, K], by MatMulT "+
		"(transpose_b)", found[0].Label(), others(len(found)-1), found[0].Type())
}

// isByte reports whether a dtype has integers of one byte.
func isByte(t ir.DType) bool { return t == ir.I8 || t == ir.U8 }

// stored returns the weight that a matmul's operand is, as it is or dequantized; or nil.
func stored(n *ir.Node) *ir.Node {
	for n.Op() != ir.OpWeight {
		switch {
		case n.Op() == ir.OpTranspose || len(n.Args()) == 0: // another order, or no weight
			return nil
		case n.Op() == ir.OpCast || n.Op() == ir.OpDequantize || n.Op().Class() == ir.ClassElementwise:
			n = n.Arg(0) // scales and zero points are the second operand
		default:
			return nil
		}
	}
	return n
}

// others counts the nodes that a hint does not name.
func others(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// slowDoubles returns a hint if the graph has f64 ops and the device computes them much slower than f32, or "".
func slowDoubles(p *program) string {
	times := device.DoubleTimes(p.caps)
	if times < 8 {
		return ""
	}
	live, count := p.graph.Live(), 0
	var first *ir.Node
	for _, n := range p.graph.Nodes() {
		if live[n.ID()] && n.DType() == ir.F64 && n.Op().Class() != ir.ClassLeaf && n.Op().Class() != ir.ClassView {
			count++
			if first == nil {
				first = n
			}
		}
	}
	if first == nil {
		return ""
	}
	where := ""
	if first.Pos() != "" {
		where = " (" + first.Pos() + ")"
	}
	return fmt.Sprintf("%s%s%s computes in f64, which takes about %d times as long as f32 on %s", first.Op(), where,
		others(count-1), times, p.caps.Name)
}

// wideTimes is how many times a bound must be as large as a symbol's value to be worth a hint.
const wideTimes = 16

// wideSymbols returns a hint if symbols have bounds far above their values, or "".
func wideSymbols(p *program) string {
	text := ""
	for _, name := range p.graph.Symbols() {
		bound, _ := p.graph.SymbolBound(name)
		value, given := p.symbols[name]
		if !given || bound/max(value, 1) < wideTimes {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s <= %d is %d", name, bound, value)
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%s: memory (%d bytes of temporaries) and schedules are made for the bound; a smaller one "+
		"saves both", text, p.low.Program.ArenaBytes)
}
