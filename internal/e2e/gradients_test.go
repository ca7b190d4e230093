package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	"github.com/vkc-go/vkc/runtime"
)

var (
	allGradients = flag.String("gradients", "",
		"TestGradientsOnDevice: the ops that this matches in every dtype, not a sample; . for all")
	writeGradients = flag.Bool("write-gradients", false, "write the worst errors into "+gradientsFile)
)

// gradientsFile has the worst errors by op and dtype. docs/OPS.md has a table of them.
const gradientsFile = "../gendocs/gradients.json"

// gradientDTypes are the dtypes used in training.
var gradientDTypes = []ir.DType{ir.F32, ir.F16, ir.BF16}

// gradientCase is the graph of the gradients of one case of an op, in one dtype.
type gradientCase struct {
	op     ir.Op
	dtype  ir.DType
	graph  *ir.Graph
	params []string
	values map[string]*ir.Data
}

// smoothDomains are where arguments lie of ops that are not smooth, or not defined, elsewhere.
var smoothDomains = map[string][2]float64{
	"acosh": {1.2, 3}, "atanh": {-0.9, 0.9}, "log": {0.3, 2}, "log2": {0.3, 2}, "log1p": {-0.5, 2}, "sqrt": {0.3, 2}, "rsqrt": {0.3, 2}, "recip": {0.4, 2},
	"div": {0.4, 2}, "mod": {0.4, 2}, "rem": {0.4, 2}, "pow": {0.3, 2}, "powf": {0.3, 2}, "asin": {-0.9, 0.9},
	"acos": {-0.9, 0.9}, "tan": {-1.2, 1.2}, "batch_norm": {0.3, 2}, "atan2": {0.4, 2},
}

// gradientOf builds the gradients of a random sum of a case's result with respect to all of its floats that have one.
// Results of fewer than some elements are none.
func gradientOf(c optest.Case, t ir.DType, least int64) (gradientCase, bool) {
	g, values, ok := c.Build(t)
	if !ok || !g.Outputs()[0].Node.DType().IsFloat() || g.Outputs()[0].Node.Shape().MaxElems() < least {
		return gradientCase{}, false
	}
	for _, n := range g.Nodes() {
		if e := n.Shape().MaxElems(); e == 0 || e > 4000 || n.Op() == ir.OpState {
			return gradientCase{}, false
		}
	}
	out := gradientCase{op: c.Op, dtype: t, values: values}
	domain, ok := smoothDomains[c.Op.String()]
	if !ok {
		domain = [2]float64{-1.7, 1.7}
	}
	for _, n := range g.Nodes() {
		if (n.Op() == ir.OpInput || n.Op() == ir.OpWeight) && n.DType().IsFloat() {
			out.params = append(out.params, n.Name())
			values[n.Name()] = spread(n, domain)
		}
	}
	for len(out.params) > 0 {
		var err error
		out.graph, err = frontend.Build("gradient of "+c.Name, func(b *frontend.Builder) { out.define(b, g) })
		if err == nil {
			return out, true
		}
		// Some operands have no gradient, such as indices.
		_, rest, found := strings.Cut(err.Error(), "there is no gradient for param ")
		var i int
		if _, bad := fmt.Sscanf(rest, "%d", &i); !found || bad != nil || i >= len(out.params) {
			return gradientCase{}, false
		}
		out.params = slices.Delete(out.params, i, i+1)
	}
	return gradientCase{}, false
}

// spread makes values for a leaf, no two alike, so that none compete where an op chooses.
func spread(n *ir.Node, domain [2]float64) *ir.Data {
	dims, err := n.Shape().Eval(nil)
	if err != nil {
		panic(err)
	}
	list := make([]float64, n.Shape().MaxElems())
	for i := range list {
		part := math.Mod(float64(i+1)*0.6180339887498949, 1)
		list[i] = domain[0] + (domain[1]-domain[0])*part
	}
	d, err := ir.FromFloats(n.DType(), list, dims...)
	if err != nil {
		panic(err)
	}
	return d
}

// define inlines g and makes outputs of the gradients.
func (c gradientCase) define(b *frontend.Builder, g *ir.Graph) {
	leaves, params := map[string]frontend.Tensor{}, make([]frontend.Tensor, len(c.params))
	for _, n := range g.Nodes() {
		if i := slices.Index(c.params, n.Name()); i >= 0 && n.Name() != "" {
			params[i] = b.Input(n.Name(), n.DType(), n.Shape())
			leaves[n.Name()] = params[i]
		}
	}
	y := b.Inline(g, leaves)[g.Outputs()[0].Name]
	count := b.Arange(ir.F32, 1, 1, ir.D(int(y.Shape().MaxElems())))
	weights := count.Sin().Reshape(y.Shape()).Cast(y.DType())
	for i, d := range frontend.VJP([]frontend.Tensor{y}, []frontend.Tensor{weights}, params...) {
		b.Output(c.params[i], d)
	}
}

// gradientCases lists a case or two of each op that has a gradient, in each dtype.
func gradientCases() (list []gradientCase) {
	have := map[string]int{}
	for _, least := range []int64{12, 1} { // small results only where there are no others
		for _, c := range optest.Cases() {
			if c.DType != ir.F32 || c.Op.Info().NoGrad != "" || c.Op.Class() == ir.ClassLeaf {
				continue
			}
			for _, t := range gradientDTypes {
				key := c.Op.String() + " " + t.String()
				if have[key] > 1 || least == 1 && have[key] > 0 {
					continue
				}
				if x, ok := gradientOf(c, t, least); ok {
					have[key]++
					list = append(list, x)
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b gradientCase) int { return int(a.op) - int(b.op) })
	return list
}

// TestGradientsOnDevice compiles the gradients of ops and compares them with the reference, for every seventh case in
// f32, or for the ones that -gradients selects. The errors should be close to the errors in docs/OPS.md.
func TestGradientsOnDevice(t *testing.T) {
	dev := openDevice(t)
	cases := gradientCases()
	named, err := regexp.Compile("^(" + *allGradients + ")$")
	if err != nil {
		t.Fatal(err)
	}
	if *allGradients == "." {
		named = regexp.MustCompile(".")
	}
	cases = slices.DeleteFunc(cases, func(c gradientCase) bool {
		if *allGradients == "" {
			return c.dtype != ir.F32 || int(c.op)%7 != 0
		}
		return !named.MatchString(c.op.String())
	})
	if len(cases) == 0 {
		t.Fatal("there are no cases")
	}
	graphs := make([]*ir.Graph, len(cases))
	for i, c := range cases {
		graphs[i] = c.graph
	}
	devtest.CompileShaders(t, dev.Caps(), graphs...)
	worst := map[string]map[string]float64{}
	silent := map[ir.Op]bool{}
	for _, c := range cases {
		e, err := gradientError(dev, c)
		switch {
		case optest.Refused(errOrNone(err)):
			t.Logf("%s %s: %v", c.op, c.dtype, err)
		case errors.Is(err, errAllZero): // such as of the variance of single elements; another case must say more
			silent[c.op] = true
		case err != nil:
			t.Errorf("%s: %v", c.graph.Name, err)
		default:
			of := worst[c.op.String()]
			if of == nil {
				of = map[string]float64{}
				worst[c.op.String()] = of
			}
			of[c.dtype.String()] = max(of[c.dtype.String()], e)
		}
	}
	for op := range silent {
		if worst[op.String()] == nil {
			t.Errorf("%s: %v", op, errAllZero)
		}
	}
	table := gradientErrors(t)
	for _, op := range slices.Sorted(maps.Keys(worst)) {
		t.Log(op, worst[op])
		for d, e := range worst[op] {
			if !*writeGradients && e > 10*table[op][d]+1e-5 {
				t.Errorf("%s in %s is off by %.1e, and by %.1e in docs/OPS.md; if that is right, see -write-gradients",
					op, d, e, table[op][d])
			}
		}
		table[op] = worst[op]
	}
	if *writeGradients {
		raw, err := json.MarshalIndent(table, "", " ")
		if err == nil {
			err = os.WriteFile(gradientsFile, append(raw, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// gradientErrors reads the table of errors.
func gradientErrors(t *testing.T) (table map[string]map[string]float64) {
	t.Helper()
	raw, err := os.ReadFile(gradientsFile)
	if err == nil {
		err = json.Unmarshal(raw, &table)
	}
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func errOrNone(err error) error {
	if err == nil {
		return os.ErrNotExist
	}
	return err
}

// gradientError runs a case on the device and on the reference. It returns the largest difference relative to the
// largest gradient, or an error if the op's tolerances are exceeded.
func gradientError(dev *vkc.Device, c gradientCase) (worst float64, err error) {
	ctx := context.Background()
	weights := vkc.WeightMap(c.values)
	exe, err := dev.LoadGraph(ctx, c.graph, weights)
	if err != nil {
		return 0, err
	}
	defer exe.Close()
	in := map[string]*ir.Data{}
	for _, n := range c.graph.Leaves(ir.OpInput) {
		in[n.Name()] = c.values[n.Name()]
	}
	reference, err := check.New(c.graph, weights)
	if err != nil {
		return 0, err
	}
	r, err := exe.Vulkan().Run(ctx, in, runtime.RunOptions{})
	if err != nil {
		return 0, err
	}
	report, err := reference.Check(ctx, exe.Vulkan(), in, nil, r.Outputs)
	if err != nil {
		return 0, err
	}
	some := false
	for _, v := range report.Values {
		list, err := r.Outputs[v.Name].Floats()
		if err != nil {
			return 0, err
		}
		largest := 0.0
		for _, x := range list {
			largest = max(largest, math.Abs(x))
		}
		if some = some || largest > 0; largest > 0 {
			worst = max(worst, v.WorstAbs/largest)
		}
	}
	if err := report.Err(); err != nil || some {
		return worst, err
	}
	return 0, errAllZero
}

var errAllZero = errors.New("all gradients are 0, which says nothing")

// TestGradientCases: every op that has a gradient has cases in f32, and nearly every one in f16 and bf16.
func TestGradientCases(t *testing.T) {
	have := map[string]bool{}
	for _, c := range gradientCases() {
		have[c.op.String()+" "+c.dtype.String()] = true
	}
	for _, op := range ir.Ops() {
		if op.Info().NoGrad != "" || op.Class() == ir.ClassLeaf || op.Info().Custom != nil {
			continue
		}
		for _, d := range gradientDTypes {
			if !have[op.String()+" "+d.String()] {
				t.Errorf("no gradient of %s in %s is checked", op, d)
			}
		}
	}
	t.Logf("%d", len(have))
}

// TestGradientsThroughBlocks: values before quantized weights, and small matrices next to them, have gradients on the
// device, with matmuls that read the blocks directly (LoRA, Hu et al. 2021). So do queries that attend to quantized
// keys.
func TestGradientsThroughBlocks(t *testing.T) {
	dev := openDevice(t)
	formats := []ir.DType{ir.Q4_0, ir.Q4_K}
	if *allGradients != "" {
		formats = quantTypes
	}
	for _, format := range formats {
		t.Run(format.String(), func(t *testing.T) {
			g := build(t, func(b *frontend.Builder) {
				x, down, up := b.Input("x", ir.F32, 5, 256), b.Input("a", ir.F32, 4, 256), b.Input("b", ir.F32, 70, 4)
				y := x.Gelu().MatMulT(b.Weight("w", format, 70, 256)).Add(x.MatMulT(down).MatMulT(up))
				params := []frontend.Tensor{x, down, up}
				for i, d := range frontend.Grad(y.Sqr().Mean(), params...) {
					b.Output("grad of "+params[i].Node().Name(), d)
				}
			})
			checkRun(t, dev, g, once)
		})
		t.Run("keys in "+format.String(), func(t *testing.T) {
			g := build(t, func(b *frontend.Builder) {
				d := format.BlockElems()
				q := b.Input("q", ir.F32, 4, 5, d)
				k, v := b.Weight("k", format, 2, 9, d), b.Weight("v", format, 2, 9, d)
				y := q.Attention(k.Dequantize(ir.F32), v.Dequantize(ir.F32), frontend.Causal())
				b.Output("grad of q", frontend.Grad(y.Sqr().Mean(), q)[0])
			})
			checkRun(t, dev, g, once)
		})
	}
}
