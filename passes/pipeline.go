package passes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/layout"
	"github.com/vkc-go/vkc/passes/lower"
	"github.com/vkc-go/vkc/passes/plan"
	"github.com/vkc-go/vkc/passes/rewrite"
	"github.com/vkc-go/vkc/passes/rules"
)

// State is the result of the passes so far. Graph is set from the start, the other fields by later passes: Fusion by
// fuse_elementwise, Optimizer and Kernels by lower, Program by plan.
type State struct {
	Graph  *ir.Graph
	Fusion *lower.Fusion
	// Optimizer has the graph of kernels (Plan) and the decisions of rules.
	rules.Optimizer
	Kernels []*kernel.Kernel // the kernels of Plan, in the order in which they run
	Program *kernel.Program
	// Refused has a line for each attention that was decomposed, because no attention kernel supports it, with the
	// reason.
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
	{"find_attention", "as one op, attention spelled as matmuls and softmax never stores its scores",
		rewrites(rewrite.FindAttention)},
	{"find_writes", "a state rebuilt by concat needs only writes of its changed parts", rewrites(rewrite.FindWrites)},
	{"find_byte_products", "int8 operands need no dequantization before a matmul", rewrites(rewrite.FindByteProducts)},
	{"decompose", "not every op has a kernel; fusion joins the simpler ops again", decompose},
	{"round_rows", "int8 rows times quantized weights can be faster than float rows", priced(rewrite.RoundRows)},
	{"fold_constants", "values that depend on constants alone are known now", rewrites(rewrite.FoldConstants)},
	{"simplify", "identities and chains of views hide what fusion looks for", rewrites(rewrite.Simplify)},
	{"cse", "equal values are computed once", rewrites(rewrite.CSE)},
	{"interface", "no two outputs or states may share a buffer", priced(rewrite.SeparateBuffers)},
	{"merge_siblings", "one wide matmul fills a device better than several narrow ones of the same operand",
		rewrites(rewrite.MergeSiblings)},
	{"dce", "a value that no output or update needs costs time", rewrites(rewrite.DCE)},
	{"complete_results", "a custom kernel or loop writes all its results, so each needs a value",
		rewrites(rewrite.CompleteResults)},
	{"fuse_elementwise", "elementwise ops and views inside other kernels need no memory traffic", fuseElementwise},
	{"fuse_epilogues", "a kernel can apply the elementwise ops after it before it stores",
		func(s *State) error { return s.Fusion.FuseEpilogues() }},
	{"lower", "a kernel is index maps and scalar expressions, whatever ops it came from", lowerClusters},
	rule("implicit_gemm", "matrix units load windows directly if channels are innermost", rules.ImplicitGEMM),
	rule("chain_convs", "a convolution can store its result as the next one's argument", rules.ChainConvs),
	rule("half_attention", "matrix units take f16 queries, keys and values", rules.HalfAttention),
	rule("pack_operands", "an operand stored once is not computed again by every tile", rules.PackOperands),
	rule("fuse_copies", "the kernel of a value can store it in another dtype or order", rules.FuseCopies),
	rule("peel_tails", "the last rows or columns of a matmul may fill no tile", rules.PeelTails),
	rule("split_k", "a matmul or attention of few results fills a device if its sums are split", rules.SplitK),
	rule("fuse_norms", "a matmul need not wait for the norm of its rows: the factor can come last", rules.FuseNorms),
	rule("prescale_rows", "matmuls that multiply a row by one weight can read the product", rules.PrescaleRows),
	rule("fuse_slices", "a matmul can store what others derive from its columns", rules.FuseSlices),
	{"prepack_weights", "values that depend on weights alone are computed once, when the program is loaded",
		optimizes((*rules.Optimizer).PrepackWeights)},
	rule("merge_maps", "elementwise kernels that read the same value need one launch", rules.MergeMaps),
	{"canonicalize", "schedules are chosen for the form that is emitted: contiguous axes merged, implied casts dropped",
		optimizes((*rules.Optimizer).Canonicalize)},
	{"plan", "buffers whose lifetimes do not overlap share memory, and hazards need barriers", layOut},
}

// constraint requires all passes in Before to run before all passes in After, for the reason Why.
type constraint struct {
	Before, After []string
	Why           string
}

type list = []string

var constraints = []constraint{
	{list{"find_attention"}, list{"decompose"}, "decompose expands attentions without a kernel, also found ones"},
	{list{"find_attention"}, list{"find_byte_products"}, "an attention of dequantized operands is an attention first"},
	{list{"find_byte_products"}, list{"decompose", "fold_constants"}, "it looks for dequantize ops, which these expand"},
	{list{"find_writes"}, list{"decompose"}, "decompose expands writes that are not in place"},
	{list{"decompose"}, list{"round_rows", "fold_constants", "cse"}, "it makes matmuls, constants and equal values"},
	{list{"fold_constants"}, list{"simplify"}, "x*1 is an identity only once the 1 is a constant"},
	{list{"round_rows"}, list{"cse"}, "matmuls of the same rows share their int8 form"},
	{list{"fold_constants", "simplify", "cse"}, list{"interface", "merge_siblings"}, "these make values equal"},
	{list{"dce", "interface"}, list{"complete_results"}, "dce would drop unused results; interface copies values first"},
	{list{"interface", "merge_siblings", "complete_results"}, list{"fuse_elementwise"}, "fusion decides for the final nodes"},
	{list{"fuse_epilogues"}, list{"lower"}, "a cluster becomes a kernel once it is complete"},
	{list{"lower"}, list{"implicit_gemm", "half_attention"}, "rules rewrite kernels"},
	{list{"implicit_gemm"}, list{"chain_convs", "pack_operands"}, "its operands are stored well already"},
	{list{"pack_operands"}, list{"fuse_copies", "peel_tails"}, "it makes copies, and all parts of a matmul read the same"},
	{list{"half_attention", "chain_convs", "peel_tails", "fuse_copies"}, list{"split_k"}, "it splits what these leave"},
	{list{"split_k"}, list{"fuse_norms"}, "a matmul that sums its rows is neither split nor cut"},
	{list{"fuse_norms"}, list{"prescale_rows", "fuse_slices"}, "these look at matmuls with fused norms"},
	{list{"prescale_rows", "fuse_slices"}, list{"prepack_weights"}, "no rule may change a kernel that runs once"},
	{list{"prepack_weights"}, list{"merge_maps"}, "a kernel that runs once must not become part of one that does not"},
	{list{"fuse_slices", "merge_maps"}, list{"canonicalize"}, "rules look for the axes and casts of the graph"},
	{list{"prepack_weights"}, list{"plan"}, "a prepared value has no range of the arena"},
}

func init() {
	if err := checkTable(table, constraints); err != nil {
		panic("passes: " + err.Error())
	}
}

// checkTable returns an error if a pass has no reason or is listed twice, or if the order of passes violates a
// constraint.
func checkTable(table []Pass, constraints []constraint) error {
	place := map[string]int{}
	for i, p := range table {
		if p.Why == "" {
			return fmt.Errorf("%s does not say why", p.Name)
		}
		// Places count from 1, so 0 means that the pass is not there.
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

// priced makes a pass of a function that rewrites the graph. f gets the pricer, which may be nil. The pass verifies the
// new graph.
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

// rewrites returns the Run function of a pass that rewrites the graph by f, which needs no pricer.
func rewrites(f func(*ir.Graph) (*ir.Graph, error)) func(*State) error {
	return priced(func(g *ir.Graph, _ kernel.Pricer) (*ir.Graph, error) { return f(g) })
}

// decompose is the pass of that name. It also fills in State.Refused.
func decompose(s *State) error {
	s.Refused = rewrite.RefusedAttentions(s.Graph)
	return priced(rewrite.Decompose)(s)
}

func fuseElementwise(s *State) error {
	s.Fusion = lower.NewFusion(s.opt.Context, s.Graph, s.opt.Limits)
	s.Fusion.LowerBody = s.lowerBody
	return s.Fusion.FuseElementwise()
}

func lowerClusters(s *State) error {
	s.Optimizer = rules.NewOptimizer(s.Fusion, s.opt.Pricer)
	s.Plan.InLoop = s.inLoop
	return s.Fusion.Lower(s.opt.Pricer)
}

func layOut(s *State) (err error) {
	s.Program, s.Kernels, err = layout.Program(s.Plan)
	return err
}

// rule returns a pass that applies a rule to all kernels.
func rule(name, why string, r rules.Rule) Pass {
	return Pass{name, why, optimizes(func(o *rules.Optimizer) { o.Apply(name, r) })}
}

// optimizes makes a pass of a function that changes kernels.
func optimizes(f func(*rules.Optimizer)) func(*State) error {
	return func(s *State) error {
		f(&s.Optimizer)
		return nil
	}
}

// Passes returns the passes in the order in which they run. Do not modify the list.
func Passes() []Pass { return table }

// Event describes one pass that has run.
type Event struct {
	Pass    string
	State   *State
	Before  *ir.Graph // the graph before the pass
	Changed bool      // whether Text differs from before the pass
	Text    string    // State.Text after the pass
	Elapsed time.Duration
}

// Options configure Run; the zero value is the default.
type Options struct {
	// Observe, if set, is called after every pass. An error from it ends Run.
	Observe func(Event) error
	// Context, if set, cancels the passes; the error is then the context's.
	Context context.Context
	// Until, if set, is the last pass to run.
	Until string
	// Limits bound the size of a kernel. Zero fields mean limits that most devices can meet.
	Limits Limits
	// Pricer, if set, estimates the times of kernels on a device, and so decides which proposals of rules pay off.
	Pricer kernel.Pricer
}

// Limits bound the size of a kernel.
type Limits = lower.Limits

// Run runs the passes on a graph and returns the state after the last one. It does not modify g.
func Run(g *ir.Graph, opt Options) (*State, error) {
	if err := g.Verify(); err != nil {
		return nil, err
	}
	isLast := func(p Pass) bool { return p.Name == opt.Until }
	if opt.Until != "" && !slices.ContainsFunc(table, isLast) {
		return nil, fmt.Errorf("unknown pass %q: the passes are %s", opt.Until, names())
	}
	return run(&State{Graph: g, passes: table}, opt)
}

// run runs the passes of s up to pass opt.Until.
func run(s *State, opt Options) (*State, error) {
	if opt.Context == nil {
		opt.Context = context.Background()
	}
	s.opt = opt
	// the state as text before the pass, to see whether the pass changes it
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

// lowerBody runs the passes up to canonicalize on the body of a loop.
func (s *State) lowerBody(g *ir.Graph) (*lower.Fusion, error) {
	body, err := run(&State{Graph: g, inLoop: true, passes: s.passes},
		Options{Context: s.opt.Context, Limits: s.opt.Limits, Pricer: s.opt.Pricer, Until: "canonicalize"})
	if err != nil {
		return nil, err
	}
	return body.Fusion, nil
}

// arrange checks and sorts the kernels after a pass.
func (s *State) arrange() error {
	if err := s.Plan.Check(); err != nil {
		return fmt.Errorf("the pass left broken kernels: %w", err)
	}
	s.Plan.Sort()
	s.Kernels = s.Plan.Kernels()
	return nil
}

// names lists the names of all passes.
func names() string {
	var list []string
	for _, p := range table {
		list = append(list, p.Name)
	}
	return strings.Join(list, ", ")
}

// Text prints the latest form of the program: the graph (with the fusion decisions as comments, once there are any),
// the kernels after pass lower, or the program after pass plan.
func (s *State) Text() string {
	var b strings.Builder
	switch {
	case s.Program != nil:
		layout.Print(&b, s.Program)
	case s.Kernels != nil:
		printKernels(&b, s.Plan)
	case s.Fusion != nil:
		s.Graph.Print(&b, s.Fusion.Note)
	default:
		b.WriteString(s.Graph.String())
	}
	return b.String()
}

// printKernels prints kernels. The kernels of a loop's body follow the loop, indented.
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
