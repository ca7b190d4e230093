package passes

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/plan"
)

// State is the state of the pipeline: the graph, then the fusion decisions, then its kernels, then the program.
type State struct {
	Graph     *ir.Graph
	Fusion    *Fusion
	Optimizer                  // after lower
	Kernels   []*kernel.Kernel // of Plan after a pass, in the order of Program.Steps
	Program   *kernel.Program
	// Refused lists, one per line, the ops that were decomposed although they could have had their own kernel, and why.
	Refused []string

	opt    Options
	inLoop bool // whether the graph is a loop's body
	passes []Pass
}

// Pass is one row of the pass table.
type Pass struct {
	Name string
	Why  string
	Run  func(*State) error
}

// table lists the passes in the order they run.
var table = []Pass{
	{"find_attention", "softmax(q k^T) v in its many spellings is attention, whose scores are never stored", rewrites(findAttention)},
	{"find_writes", "a state's new value that is the old one but for some parts, spelled by concat, is written as those parts", rewrites(findWrites)},
	{"find_byte_products", "bytes that are dequantized only to be multiplied are multiplied as they are", rewrites(findByteProducts)},
	{"decompose", "ops without a kernel of their own become ones that have; fusion then gives the kernel", func(s *State) error {
		s.Refused = Refused(s.Graph)
		return priced(decompose)(s)
	}},
	{"round_rows", "rows that may be rounded, or are stored as bytes, meet quantized weights as bytes where that pays",
		priced(roundRows)},
	{"fold_constants", "what only depends on constants is computed once, here", rewrites(foldConstants)},
	{"simplify", "identities and chains of views only hide what could be fused", rewrites(simplify)},
	{"cse", "equal values are computed once", rewrites(cse)},
	{"interface", "every output and state update gets a value of its own, so that two never share a buffer",
		priced(ownValues)},
	{"merge_siblings", "products of one operand by several weights are one product by all of them", rewrites(mergeSiblings)},
	{"dce", "what no output or update needs is not computed", rewrites(dce)},
	{"complete_results", "a custom kernel writes all its results, and a loop carries them, so each has a value", rewrites(completeResults)},
	{"fuse_elementwise", "views, decodes and elementwise chains go inline into the kernels that use them",
		func(s *State) error {
			s.Fusion = newFusion(s.opt.Context, s.Graph, s.opt.Limits)
			s.Fusion.LowerBody = s.lowerBody
			return s.Fusion.FuseElementwise()
		}},
	{"fuse_epilogues", "elementwise chains after a product or reduction join its kernel, and so do loops over the " +
		"same rows", func(s *State) error {
		return s.Fusion.FuseEpilogues()
	}},
	{"lower", "clusters become kernels: index maps and scalar expressions", func(s *State) error {
		s.Optimizer = NewOptimizer(s.Fusion, s.opt.Pricer)
		s.Plan.InLoop = s.inLoop
		return s.Fusion.Lower(s.opt.Pricer)
	}},
	rule("implicit_gemm", "windows of a tensor with its channels innermost lie as matrix units take them", implicitGEMM),
	rule("chain_convs", "what a convolution stores need not be stored again for the next one", chainConvs),
	rule("half_attention", "attention that may round its operands to f16 may run on matrix units for it", halfAttention),
	rule("pack_operands", "an operand that is computed, or lies badly, is made once and not by every tile of a product, f32 as sums of bf16", packOperands),
	rule("fuse_copies", "what is stored only to be stored again in another dtype or order is stored so by the kernel that computes it", fuseCopies),
	rule("peel_tails", "the last rows or columns of a product may not be worth a tile of the size that the others are", peelTails),
	rule("split_k", "a product or attention with few results fills the device once its contraction is split", splitK),
	rule("fuse_norms", "a row that is multiplied by a number of its own, which takes a sum along it, may be so after a product of it, which need not wait for the row", fuseNorms),
	rule("prescale_rows", "a row that products multiply by a weight, and add up as it is, is multiplied once, by the kernel that computes it", prescaleRows),
	rule("fuse_slices", "what only goes over neighbouring columns of a row that a product stores, as into a cache, may be stored by the product", fuseSlices),
	{"prepack_weights", "what only depends on weights and constants is computed once, when the program is loaded, unless it takes much memory", optimizes((*Optimizer).PrepackWeights)},
	{"canonicalize", "schedules are chosen for what is emitted: axes that lie in memory as one are one, and stores round without a cast", optimizes((*Optimizer).Canonicalize)},
	{"plan", "buffers get places, lifetimes overlapped, and barriers stand where a hazard is", func(s *State) (err error) {
		s.Program, s.Kernels, err = layOutMemory(s.Plan)
		return err
	}},
}

// constraint requires some passes to run before others, with the reason.
type constraint struct {
	Before, After []string
	Why           string
}

type list = []string

var constraints = []constraint{
	{list{"find_attention"}, list{"decompose"}, "attentions without a kernel are taken apart, those that were found too"},
	{list{"find_attention"}, list{"find_byte_products"}, "an attention of dequantized bytes is one first, which never stores its scores"},
	{list{"find_byte_products"}, list{"decompose", "fold_constants"}, "it looks for dequantized weights as they are spelled, before they are f32"},
	{list{"find_writes"}, list{"decompose"}, "writes that are not in place after all are taken apart"},
	{list{"decompose"}, list{"round_rows", "fold_constants", "cse"}, "it makes the products, constants and equal parts that these look at"},
	{list{"fold_constants"}, list{"simplify"}, "x*1 is seen only once the 1 is a constant"},
	{list{"round_rows"}, list{"cse"}, "products that share rows share their bytes"},
	{list{"fold_constants", "simplify", "cse"}, list{"interface", "merge_siblings"}, "an output may turn out to be an input or another output, and operands to be one"},
	{list{"dce", "interface"}, list{"complete_results"}, "dead results would be dropped again, and first values of loops are copies as well"},
	{list{"interface", "merge_siblings", "complete_results"}, list{"fuse_elementwise"}, "fusion decides for the nodes that there are"},
	{list{"fuse_epilogues"}, list{"lower"}, "a cluster becomes a kernel once it is complete"},
	{list{"lower"}, list{"implicit_gemm", "half_attention"}, "rules rewrite kernels"},
	{list{"implicit_gemm"}, list{"chain_convs", "pack_operands"}, "what it stores lies well already"},
	{list{"pack_operands"}, list{"fuse_copies", "peel_tails"}, "kernels of operands may only store anew, and all parts of a product read the same ones"},
	{list{"half_attention", "chain_convs", "peel_tails", "fuse_copies"}, list{"split_k"}, "it splits what these leave, which may be less and stored otherwise"},
	{list{"split_k"}, list{"fuse_norms"}, "a product that adds up its rows is neither split nor cut"},
	{list{"fuse_norms"}, list{"prescale_rows", "fuse_slices"}, "these look at products that norms are fused with"},
	{list{"prescale_rows", "fuse_slices"}, list{"prepack_weights"}, "what runs once is what no rule changes any more"},
	{list{"fuse_slices"}, list{"canonicalize"}, "rules look for the axes and casts of the graph"},
	{list{"prepack_weights"}, list{"plan"}, "what is prepared has no place in the arena"},
}

func init() {
	if err := checkTable(table, constraints); err != nil {
		panic("passes: " + err.Error())
	}
}

// checkTable returns an error for a pass without a reason, or a constraint that the order of the passes violates.
func checkTable(table []Pass, constraints []constraint) error {
	place := map[string]int{}
	for i, p := range table {
		if p.Why == "" {
			return fmt.Errorf("%s does not say why", p.Name)
		}
		if place[p.Name] > 0 {
			return fmt.Errorf("%s is there twice", p.Name)
		}
		place[p.Name] = i + 1
	}
	for _, c := range constraints {
		for _, before := range c.Before {
			for _, after := range c.After {
				a, b := place[before], place[after]
				if a == 0 || b == 0 || a >= b || c.Why == "" {
					return fmt.Errorf("%s must run before %s: %s", before, after, c.Why)
				}
			}
		}
	}
	return nil
}

// priced lifts a rewrite of the graph to a pass; the result is verified. The rewrite gets the pricer, which may be nil.
func priced(f func(*ir.Graph, kernel.Pricer) (*ir.Graph, error)) func(*State) error {
	return func(s *State) error {
		g, err := f(s.Graph, s.opt.Pricer)
		if err != nil {
			return err
		}
		if err := g.Verify(); err != nil {
			return fmt.Errorf("the pass left a broken graph: %w", err)
		}
		s.Graph = g
		return nil
	}
}

// rewrites is priced for a rewrite that pays off on any device.
func rewrites(f func(*ir.Graph) (*ir.Graph, error)) func(*State) error {
	return priced(func(g *ir.Graph, _ kernel.Pricer) (*ir.Graph, error) { return f(g) })
}

// rule is a pass that applies a rule.
func rule(name, why string, r Rule) Pass {
	return Pass{name, why, optimizes(func(o *Optimizer) { o.Apply(name, r) })}
}

// optimizes lifts a change of kernels to a pass.
func optimizes(f func(*Optimizer)) func(*State) error {
	return func(s *State) error {
		f(&s.Optimizer)
		return nil
	}
}

// Passes returns the pass table, in order; do not modify.
func Passes() []Pass { return table }

// Event reports one pass that has run.
type Event struct {
	Pass    string
	State   *State
	Before  *ir.Graph
	Changed bool // whether Text differs from before the pass
	Text    string
	Elapsed time.Duration
}

// Options configure Run; the zero value is the default.
type Options struct {
	// Observe, if set, is called after every pass. State is printed only in this case.
	Observe func(Event) error
	// Context, if set, cancels the passes; the error is then the context's.
	Context context.Context
	// Until, if set, is the last pass to run.
	Until string
	// Limits bound the size of a kernel; zero fields get the limits of most devices.
	Limits Limits
	// kernel.Pricer, if set, decides which proposals pay off on a device.
	Pricer kernel.Pricer
}

// Run takes a graph through the passes. The input graph is not modified.
func Run(g *ir.Graph, opt Options) (*State, error) {
	if err := g.Verify(); err != nil {
		return nil, err
	}
	if opt.Until != "" && !known(opt.Until) {
		return nil, fmt.Errorf("unknown pass %q: the passes are %s", opt.Until, names())
	}
	return run(&State{Graph: g, passes: table}, opt)
}

func run(s *State, opt Options) (*State, error) {
	if opt.Context == nil {
		opt.Context = context.Background()
	}
	s.opt = opt
	text := ""
	if opt.Observe != nil {
		text = s.Text()
	}
	for _, p := range s.passes {
		if err := opt.Context.Err(); err != nil {
			return nil, fmt.Errorf("before pass %s: %w", p.Name, err)
		}
		start, before := time.Now(), s.Graph
		err := p.Run(s)
		if err == nil && s.Plan != nil && s.Program == nil {
			err = s.arrange()
		}
		if err != nil {
			return nil, fmt.Errorf("pass %s: %w", p.Name, err)
		}
		if opt.Observe != nil {
			elapsed, after := time.Since(start), s.Text()
			err := opt.Observe(Event{Pass: p.Name, State: s, Before: before, Changed: after != text, Text: after,
				Elapsed: elapsed})
			if err != nil {
				return nil, fmt.Errorf("after pass %s: %w", p.Name, err)
			}
			text = after
		}
		if p.Name == opt.Until {
			break
		}
	}
	return s, nil
}

// lowerBody compiles the body of a loop to kernels.
func (s *State) lowerBody(g *ir.Graph) (*Fusion, error) {
	body, err := run(&State{Graph: g, inLoop: true, passes: s.passes},
		Options{Context: s.opt.Context, Limits: s.opt.Limits, Pricer: s.opt.Pricer, Until: "canonicalize"})
	if err != nil {
		return nil, err
	}
	return body.Fusion, nil
}

// arrange puts the kernels in order after a pass, and checks them.
func (s *State) arrange() error {
	if err := s.Plan.Check(); err != nil {
		return fmt.Errorf("the pass left broken kernels: %w", err)
	}
	s.Plan.Sort()
	s.Kernels = s.Plan.Kernels()
	return nil
}

func known(name string) bool {
	for _, p := range table {
		if p.Name == name {
			return true
		}
	}
	return false
}

func names() string {
	var list []string
	for _, p := range table {
		list = append(list, p.Name)
	}
	return strings.Join(list, ", ")
}

// Text prints the state at its current stage: the graph, with the fusion decisions as comments if there are any, then
// the kernels, then the plan.
func (s *State) Text() string {
	var b strings.Builder
	switch {
	case s.Program != nil:
		PrintPlan(&b, s.Program)
	case s.Kernels != nil:
		printKernels(&b, s.Plan)
	case s.Fusion != nil:
		s.Graph.Print(&b, s.Fusion.Note)
	default:
		b.WriteString(s.Graph.String())
	}
	return b.String()
}

// printKernels prints kernels, and the kernels of loop bodies indented.
func printKernels(b *strings.Builder, g *plan.Graph) {
	once := g.Once()
	for i, k := range g.Kernels() {
		if once > 0 && i == 0 {
			b.WriteString("once, when loaded\n")
		}
		if once > 0 && i == once {
			b.WriteString("every run\n")
		}
		b.WriteString(k.String())
		if k.Loop != nil {
			var body strings.Builder
			printKernels(&body, g.Bodies[k.Loop.Body])
			text := strings.TrimSuffix(body.String(), "\n")
			fmt.Fprintf(b, "    %s\n", strings.ReplaceAll(text, "\n", "\n    "))
		}
	}
}
