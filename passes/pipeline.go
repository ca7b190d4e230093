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

// State is what passes work on: the graph, then the decisions about it, then
// its kernels, then the program.
type State struct {
	Graph   *ir.Graph
	Fusion  *Fusion
	Plan    *plan.Graph      // the kernels, and what they pass on
	Kernels []*kernel.Kernel // of Plan after a pass, in the order of Program.Steps
	Program *kernel.Program
	// Refused says, a line each, which ops could have had a kernel of their own
	// and why they were taken apart instead.
	Refused []string

	windows func(direct, product *kernel.Kernel, stores []*kernel.Kernel) bool
	store   func(*kernel.Kernel) []kernel.StoredOperand
	halve   func(*kernel.Kernel) []kernel.StoredOperand
	split   func(*kernel.Kernel) int
	tail    func(*kernel.Kernel) kernel.Tail
	bytes   func(t ir.DType, rows, columns ir.Dim) bool
	half    func(*kernel.Kernel) bool

	ctx                               context.Context
	limits                            Limits
	joinNorm, joinSlices, storeFactor func(product, joined *kernel.Kernel) bool
}

// Pass is one row of the pass table.
type Pass struct {
	Name string
	Why  string
	Run  func(*State) error
}

// table lists the passes in the order they run.
var table = []Pass{
	{"decompose", "ops without a kernel of their own become ones that have; fusion then gives the kernel", takeApart},
	{"round_rows", "rows that may lose precision meet quantized weights as bytes, where the device multiplies those faster", roundRows},
	{"fold_constants", "what only depends on constants is computed once, here", graphPass(foldConstants)},
	{"simplify", "identities and chains of views only hide what could be fused", graphPass(simplify)},
	{"cse", "equal values are computed once", graphPass(cse)},
	{"interface", "every output and state update gets a value of its own, so that two never share a buffer", graphPass(ownValues)},
	{"merge_siblings", "products of one operand by several weights are one product by all of them", graphPass(mergeSiblings)},
	{"dce", "what no output or update needs is not computed", graphPass(dce)},
	{"complete_custom", "a custom kernel writes all its results, so each has a value", graphPass(completeCustom)},
	{"fuse_elementwise", "views, decodes and elementwise chains go inline into the kernels that use them", func(s *State) error {
		s.Fusion = newFusion(s.ctx, s.Graph, s.limits)
		return fuseElementwise(s.Fusion)
	}},
	{"fuse_epilogues", "elementwise chains after a product or reduction join its kernel, and so do loops over the same rows", func(s *State) error {
		return fuseEpilogues(s.Fusion)
	}},
	{"lower", "clusters become kernels: index maps and scalar expressions", lowerAll},
	{"store_windows", "windows of a tensor with its channels innermost lie as matrix units take them; it is for the device to say whether storing it so pays", storeWindows},
	{"halve_attention", "attention that may round its operands to f16 does, where the device has matrix units for it", halveAttention},
	{"split_operands", "a product of f32 that may count its operands as sums of two bf16 becomes one of bf16, three times as deep, where the device does those faster", splitOperands},
	{"store_operands", "an operand that is computed, or lies badly, is made once and not by every tile of a product; it is for the device to say which", storeOperands},
	{"join_casts", "what is stored only to be stored again in another dtype is stored so by the kernel that computes it", joinCasts},
	{"cut_tails", "the last rows or columns of a product may not be worth a tile of the size that the others are; it is for the device to say which", cutTails},
	{"split_sums", "a product or attention with few results fills the device once its contraction is split; it is for the device to say when", splitSums},
	{"join_norms", "a row that is multiplied by a number of its own, which takes a sum along it, may be so after a product of it; it is for the device to say when that saves waiting for the row", joinNorms},
	{"store_factors", "a row that products multiply by a weight, and add up as it is, is multiplied once, by the kernel that computes it; it is for the device to say when they would read it more often than that", storeFactors},
	{"join_slices", "what only goes over neighbouring columns of a row that a product stores, as into a cache, may be stored by the product; it is for the device to say when that saves waiting for the row", joinSlices},
	{"prepare_weights", "what only depends on weights and constants is computed once, when the program is loaded, unless it takes much memory", prepareWeights},
	{"plan", "buffers get places, lifetimes overlapped, and barriers stand where a hazard is", layOutMemory},
}

// constraint says that pass Before runs before pass After, and why.
type constraint struct{ Before, After, Why string }

var constraints = []constraint{
	{"decompose", "round_rows", "decomposing makes products"},
	{"round_rows", "cse", "products that share rows share their bytes"},
	{"decompose", "simplify", "decomposing leaves chains of views behind"},
	{"decompose", "fold_constants", "decomposing makes constants"},
	{"decompose", "cse", "equal composites have equal parts"},
	{"fold_constants", "interface", "an output may turn out to be a constant"},
	{"simplify", "interface", "an output may turn out to be an input, or another output"},
	{"cse", "interface", "the copies it makes must not be merged again"},
	{"interface", "fuse_elementwise", "fusion stores a required node in a buffer of its own"},
	{"fold_constants", "simplify", "x*1 is seen only once the 1 is a constant"},
	{"cse", "merge_siblings", "siblings are found by their shared operand"},
	{"merge_siblings", "fuse_elementwise", "the merged product is one kernel"},
	{"dce", "fuse_elementwise", "dead users must not keep a value in a buffer"},
	{"dce", "complete_custom", "dead results would be dropped again"},
	{"complete_custom", "fuse_elementwise", "each result is placed in a buffer"},
	{"fuse_elementwise", "fuse_epilogues", "epilogues are merged cluster by cluster"},
	{"fuse_epilogues", "lower", "a cluster is lowered once it is complete"},
	{"lower", "store_windows", "a convolution's kernel is compared with those that would take its place"},
	{"store_windows", "store_operands", "operands that lie well then need not be stored"},
	{"store_windows", "split_operands", "clusters match kernels only before"},
	{"lower", "halve_attention", "operands belong to kernels"},
	{"halve_attention", "split_sums", "how keys are split is a matter of the variant"},
	{"lower", "split_operands", "operands belong to kernels"},
	{"split_operands", "store_operands", "operands that are split are stored already"},
	{"split_operands", "split_sums", "parts are cut from the contraction as it is then"},
	{"lower", "store_operands", "operands belong to kernels"},
	{"store_operands", "split_sums", "parts are cut from the contraction as it is padded"},
	{"store_operands", "join_casts", "it makes most of the kernels that only store anew"},
	{"join_casts", "split_sums", "the kernel that adds up the parts of sums stores what the product did"},
	{"lower", "split_sums", "kernels are split, not clusters"},
	{"lower", "cut_tails", "kernels are cut, not clusters"},
	{"store_operands", "cut_tails", "both products take the same stored operands"},
	{"join_casts", "cut_tails", "it follows values that one kernel stores"},
	{"cut_tails", "split_sums", "what is cut off has few results, and may be split"},
	{"split_sums", "plan", "the sums of parts need buffers, too"},
	{"split_sums", "prepare_weights", "of a product of weights all parts are prepared, or none"},
	{"join_casts", "join_norms", "a norm may store what others want rounded"},
	{"split_sums", "join_norms", "what adds up rows is not split, nor cut, nor are its operands stored"},
	{"join_norms", "store_factors", "rows are multiplied by weights once their norms have joined products"},
	{"store_factors", "prepare_weights", "kernels are complete"},
	{"join_norms", "join_slices", "it knows products that store all their columns in one way"},
	{"join_slices", "prepare_weights", "kernels are complete"},
	{"prepare_weights", "plan", "what is prepared has no place in the arena"},
	{"lower", "plan", "the plan binds the buffers that the kernels name"},
}

func init() {
	if err := checkTable(table, constraints); err != nil {
		panic("passes: " + err.Error())
	}
}

// checkTable reports a pass without a reason, or a constraint that the order
// of the passes does not keep.
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
		a, b := place[c.Before], place[c.After]
		if a == 0 || b == 0 || a >= b || c.Why == "" {
			return fmt.Errorf("%s must run before %s: %s", c.Before, c.After, c.Why)
		}
	}
	return nil
}

// graphPass lifts a rewrite of the graph to a pass; the result is verified.
func graphPass(f func(*ir.Graph) (*ir.Graph, error)) func(*State) error {
	return func(s *State) error {
		g, err := f(s.Graph)
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

// Passes returns the pass table, in order; do not modify.
func Passes() []Pass { return table }

// Event reports one pass that has run.
type Event struct {
	Pass    string
	State   *State
	Before  *ir.Graph
	Changed bool // whether Text differs from what it was before
	Text    string
	Elapsed time.Duration
}

// Options change how Run works; the zero value is the normal way.
type Options struct {
	// Observe, where set, is told of every pass. Texts are made only then.
	Observe func(Event) error
	// Context, where set, stops the passes when it is done; the error is then its own.
	Context context.Context
	// Until, where set, is the last pass to run.
	Until string
	// Limits bound what becomes one kernel; a zero is that of most devices.
	Limits Limits
	// Windows, where set, says whether a convolution is to be done by product, of
	// operands that stores store first, rather than directly.
	Windows func(direct, product *kernel.Kernel, stores []*kernel.Kernel) bool
	// Store, where set, says for a matrix product which of its operands are to be
	// stored by kernels of their own. Operands whose contraction is padded must
	// be padded alike.
	Store func(*kernel.Kernel) []kernel.StoredOperand
	// SplitOperands, where set, says how the operands of a product are to be
	// stored whose graph allows to take them apart into bf16; all of them or
	// none, and those whose contraction is padded padded alike. Rows and Depth
	// are those of an operand as it is, before it is taken apart.
	SplitOperands func(*kernel.Kernel) []kernel.StoredOperand
	// Split, where set, says for a matrix product into how many parts, a
	// divisor of its contraction, its sums are to be split, and for an attention
	// into how many parts its keys; 1 is not at all.
	Split func(*kernel.Kernel) int
	// Half, where set, says of an attention whose operands are f16 whether the
	// device likes that better than f32, where the graph allows it.
	Half func(*kernel.Kernel) bool
	// JoinNorm, where set, says of a matrix product whether it is to be done as another,
	// with the kernel joined to it that makes its rows by a sum along them.
	JoinNorm func(product, joined *kernel.Kernel) bool
	// JoinSlices, where set, says of a matrix product whether it is to be done as
	// another, which stores what kernels made of slices of its row.
	JoinSlices func(product, joined *kernel.Kernel) bool
	// StoreFactor, where set, says of a matrix product that adds up its rows whether
	// it is to be done as another, which reads them multiplied by a weight already.
	StoreFactor func(product, reading *kernel.Kernel) bool
	// Tail, where set, says for a matrix product which of its results, if any, are
	// to be computed apart.
	Tail func(*kernel.Kernel) kernel.Tail
	// Bytes, where set, says whether so many rows are to be rounded to bytes that
	// meet so many columns of a weight in a block format, where the graph allows it.
	Bytes func(t ir.DType, rows, columns ir.Dim) bool
}

// Run takes a graph through the passes. The input graph is not modified.
func Run(g *ir.Graph, opt Options) (*State, error) {
	if err := g.Verify(); err != nil {
		return nil, err
	}
	if opt.Context == nil {
		opt.Context = context.Background()
	}
	s := &State{Graph: g, ctx: opt.Context, limits: opt.Limits.orDefault(), split: opt.Split, tail: opt.Tail,
		windows: opt.Windows, store: opt.Store, halve: opt.SplitOperands, bytes: opt.Bytes, half: opt.Half,
		joinNorm: opt.JoinNorm, joinSlices: opt.JoinSlices, storeFactor: opt.StoreFactor}
	if opt.Until != "" && !known(opt.Until) {
		return nil, fmt.Errorf("unknown pass %q: the passes are %s", opt.Until, names())
	}
	text := ""
	if opt.Observe != nil {
		text = s.Text()
	}
	for _, p := range table {
		if err := s.ctx.Err(); err != nil {
			return nil, fmt.Errorf("before pass %s: %w", p.Name, err)
		}
		start, before := time.Now(), s.Graph
		err := p.Run(s)
		if err == nil && s.Plan != nil {
			err = s.arrange()
		}
		if err != nil {
			return nil, fmt.Errorf("pass %s: %w", p.Name, err)
		}
		if opt.Observe != nil {
			elapsed, after := time.Since(start), s.Text()
			err := opt.Observe(Event{Pass: p.Name, State: s, Before: before, Changed: after != text, Text: after, Elapsed: elapsed})
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

// Text prints the state at its present stage: the graph, with the fusion
// decisions as comments once there are some, then the kernels, then the plan.
func (s *State) Text() string {
	var b strings.Builder
	switch {
	case s.Program != nil:
		PrintPlan(&b, s.Program)
	case s.Kernels != nil:
		once := s.Plan.Once()
		for i, k := range s.Kernels {
			if once > 0 && i == 0 {
				b.WriteString("once, when loaded\n")
			}
			if once > 0 && i == once {
				b.WriteString("every run\n")
			}
			b.WriteString(k.String())
		}
	case s.Fusion != nil:
		s.Graph.Print(&b, s.Fusion.note)
	default:
		b.WriteString(s.Graph.String())
	}
	return b.String()
}

// note says in which kernel a node ends up.
func (f *Fusion) note(n *ir.Node) string {
	switch c := f.coreOrHome(n); {
	case !f.live[n.ID()]:
		return ""
	case isLeaf(n) && c == nil:
		return ""
	case c == nil:
		return "inline"
	case f.home[n.ID()] == nil:
		return fmt.Sprintf("k%d, not stored", c.ID)
	default:
		return fmt.Sprintf("k%d", c.ID)
	}
}
