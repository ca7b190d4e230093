package optest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/cpu"
)

// reference is the interpreter as a backend.
func reference(_ context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
	return cpu.Load(g, w, cpu.Options{Reference: true})
}

// TestTemplates checks that no template is refused for every dtype, which would
// drop its cases silently, and that names are unique.
func TestTemplates(t *testing.T) {
	for _, tt := range templates() {
		if len(tt.cases()) > 0 || tt.mayBeRefused {
			continue
		}
		b := newBuilder(ir.NewGraph(""), "", "")
		b.typesOnly = true
		tt.build(b, preferred[0])
		t.Errorf("%s %s has no cases: %v", tt.op, tt.name, b.err)
	}
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are named %s", c.Name)
		}
		seen[c.Name] = true
	}
}

// TestEveryOp checks that each op has cases, one of them in the quick run.
func TestEveryOp(t *testing.T) {
	cases, quick := map[ir.Op]int{}, map[ir.Op]int{}
	for _, c := range Cases() {
		cases[c.Op]++
		if c.Smoke {
			quick[c.Op]++
		}
	}
	for _, op := range ir.Ops() {
		if cases[op] < 3 || quick[op] == 0 {
			t.Errorf("%s has %d cases, %d of them quick", op, cases[op], quick[op])
		}
	}
	t.Logf("%d cases", len(Cases()))
}

// TestDTypes checks the dtypes of the cases of some ops, one per class of rule.
func TestDTypes(t *testing.T) {
	floats := []ir.DType{ir.F32, ir.F16, ir.BF16, ir.F64, ir.F8E4M3, ir.F8E5M2}
	ints := []ir.DType{ir.I32, ir.I8, ir.I16, ir.I64}
	uints := []ir.DType{ir.U32, ir.U8, ir.U16}
	stored := slices.DeleteFunc(ir.DTypes(), func(t ir.DType) bool { return !t.StorageOnly() })
	all := slices.Concat(floats, ints, uints, []ir.DType{ir.Bool})
	moved := slices.Concat(all, stored)
	for op, want := range map[ir.Op][]ir.DType{
		ir.OpExp: floats, ir.OpAdd: slices.Concat(floats, ints, uints), ir.OpNeg: slices.Concat(floats, ints), ir.OpWhere: all, ir.OpCast: moved, ir.OpBitcast: slices.Concat(floats, ints, uints, stored), ir.OpShl: slices.Concat(ints, uints),
		ir.OpReshape: moved, ir.OpSum: slices.Concat(floats, ints, uints), ir.OpAny: {ir.Bool}, ir.OpSoftmax: floats, ir.OpMatMul: slices.Concat(floats, int8DTypes), ir.OpGather: moved, ir.OpScatter: all,
		ir.OpRandomUniform: floats[:4], ir.OpInput: moved, ir.OpSort: slices.Concat(floats, ints, uints),
	} {
		have := map[ir.DType]bool{}
		for _, c := range Cases() {
			if c.Op == op {
				have[c.DType] = true
			}
		}
		for _, dt := range want {
			if !have[dt] {
				t.Errorf("%s has no case of %s", op, dt)
			}
		}
		if len(have) != len(want) {
			t.Errorf("%s has cases of %d dtypes, want %v", op, len(have), want)
		}
	}
}

// TestSpecialValues checks that every op of floats meets NaN, infinities, -0 and
// large numbers in every float dtype that it takes.
func TestSpecialValues(t *testing.T) {
	type kind struct {
		op ir.Op
		t  ir.DType
	}
	met, takes := map[kind]map[float64]bool{}, map[kind]bool{}
	signed := func(v float64) float64 { // a key that NaN equals, and -0 alone
		switch {
		case v != v:
			return 0.5
		case v == 0 && math.Signbit(v):
			return 0.25
		}
		return v
	}
	for _, c := range Cases() {
		k := kind{c.Op, c.DType}
		if !c.DType.IsFloat() {
			continue
		}
		contract := strings.Contains(c.Name, "/special/") || strings.HasSuffix(c.Name, "/extreme")
		switch {
		case c.Op.Class() == ir.ClassLeaf || c.Op.Class() == ir.ClassRandom: // these take no floats
		case c.Op.Class() == ir.ClassControl: // their bodies consist of other ops
		case spreads(c.Op):
		case c.Op == ir.OpAttentionGrad: // its weights are undefined if lse does not match the scores
		case c.Op == ir.OpQuantize || c.Op == ir.OpDequantize: // their blocks cannot contain such values
		default:
			takes[k] = true
		}
		if !contract {
			continue
		}
		x, err := newBatch([]Case{c})
		if err != nil {
			t.Fatal(err)
		}
		if met[k] == nil {
			met[k] = map[float64]bool{}
		}
		for _, d := range x.inputs {
			if d.DType != c.DType {
				continue
			}
			list, err := d.Floats()
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range list {
				met[k][signed(v)] = true
			}
		}
	}
	for k := range takes {
		all := func(list []float64) bool {
			return !slices.ContainsFunc(list, func(v float64) bool { return !met[k][signed(ir.RoundTo(v, k.t))] })
		}
		if !all(specials(k.t, special)) && !all(specials(k.t, summed)) {
			t.Errorf("%s of %s does not meet all special values: %v", k.op, k.t, met[k])
		}
	}
	if len(takes) < 300 {
		t.Errorf("only %d ops and dtypes", len(takes))
	}
}

// onCPU are all cases in three dtypes, and in every dtype those with the values that differ by dtype. The fast kernels
// run their ops with every dtype in every case.
var onCPU = regexp.MustCompile(`^\w+/(f32|i32|bool)/|/(extreme|special|limits)|/7x13$|axis (-1|1)/5x37$`)

// TestCPU runs cases on the CPU backend.
func TestCPU(t *testing.T) {
	opt := Options{Filter: onCPU}
	last, cases := -1, len(Select(opt))
	opt.Progress = func(done, total int) {
		if done < last || total != cases {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	}
	report, err := Run(context.Background(), reference, opt)
	if err != nil {
		t.Fatal(err)
	}
	if total := report.Total(); total.Passed != cases || last != cases || cases < 1000 {
		t.Errorf("%+v, want %d cases", total, cases)
	}
	t.Logf("%d of %d cases", cases, len(Cases()))
	for i, f := range report.Failures() {
		if i < 20 {
			t.Errorf("%s: %s", f.Case, f.Reason)
		}
	}
	for _, r := range report.Results {
		if r.Worst != 0 {
			t.Errorf("%s differs from itself by %v", r.Case, r.Worst)
		}
	}
}

// changed is an executable with modified results.
type changed struct {
	runtime.Executable
	change func(out map[string]*ir.Data)
}

func (c changed) Run(ctx context.Context, in map[string]*ir.Data, opt ...runtime.RunOptions) (*runtime.Result, error) {
	res, err := c.Executable.Run(ctx, in, opt...)
	if err == nil {
		c.change(res.Outputs)
	}
	return res, err
}

func changing(change func(out map[string]*ir.Data)) Backend {
	return func(ctx context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
		exe, err := reference(ctx, g, w)
		return changed{exe, change}, err
	}
}

// TestWrongResults checks that results which are wrong in any way fail.
func TestWrongResults(t *testing.T) {
	only := func(f func(d *ir.Data)) func(map[string]*ir.Data) {
		return func(out map[string]*ir.Data) { f(out["y0"]) }
	}
	for _, tt := range []struct {
		name, filter, reason string
		change               func(map[string]*ir.Data)
	}{
		{"one bit of an integer", `^neg/i32/7x13$`, "1 of 91", only(func(d *ir.Data) { d.Bytes[17] ^= 1 })},
		{"NaN for a number", `^exp/f32/7x13$`, "NaN", only(func(d *ir.Data) { copy(d.Bytes, []byte{0, 0, 0xc0, 0x7f}) })},
		{"another shape", `^exp/f32/7x13$`, "want f32[7 13]", only(func(d *ir.Data) { d.Dims = []int{13, 7} })},
		{"another dtype", `^exp/f32/7x13$`, "want f32[7 13]", only(func(d *ir.Data) { d.DType = ir.I32 })},
		{"too few bytes", `^exp/f32/7x13$`, "malformed", only(func(d *ir.Data) { d.Bytes = d.Bytes[:4] })},
		{"nothing", `^exp/f32/7x13$`, "no result", func(out map[string]*ir.Data) { delete(out, "y0") }},
		{"a stale state", `^state/f32/7x13$`, "past the tolerance", only(func(d *ir.Data) { clear(d.Bytes) })},
	} {
		report, err := Run(context.Background(), changing(tt.change), Options{Filter: regexp.MustCompile(tt.filter)})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Results) != 1 {
			t.Errorf("%s: %d results", tt.name, len(report.Results))
			continue
		}
		if r := report.Results[0]; r.Outcome != Fail || !strings.Contains(r.Reason, tt.reason) || report.Err() == nil {
			t.Errorf("%s: %+v, want a failure with %q", tt.name, r, tt.reason)
		}
	}
}

// TestOneOfBatch checks that a wrong result in a batch is attributed to its case.
func TestOneOfBatch(t *testing.T) {
	report, err := Run(context.Background(), changing(func(out map[string]*ir.Data) { out["y1"].Bytes[0] ^= 0x40 }),
		Options{Filter: regexp.MustCompile(`^neg/i32/(7x13|2x3x5/viewed|extreme)$`)})
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range report.Failures() {
		failed = append(failed, f.Case)
	}
	if len(report.Results) != 3 || len(failed) != 1 || failed[0] != report.Results[1].Case {
		t.Errorf("%+v", report.Results)
	}
}

// TestLoadErrors checks which errors are rejections and which are failures, and that the other cases of a batch still
// run.
func TestLoadErrors(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Outcome
	}{
		{errors.New("no luck"), Fail},
		{fmt.Errorf("f32: %w", errors.ErrUnsupported), Refusal},
		{errors.New("%n (cumsum): cumsum has no lowering"), Refusal},
		{errors.New("gpu cannot run this graph: it lacks float64 (for neg)"), Refusal},
	} {
		backend := func(ctx context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
			for _, n := range g.Nodes() {
				if n.Op() == ir.OpFlip { // of case 2x3x5/viewed
					return nil, tt.err
				}
			}
			return reference(ctx, g, w)
		}
		report, err := Run(context.Background(), backend,
			Options{Filter: regexp.MustCompile(`^neg/f32/(7x13|2x3x5/viewed|extreme)$`)})
		if err != nil {
			t.Fatal(err)
		}
		total := report.Total()
		if total.Cases != 3 || total.Passed != 2 || tt.want == Refusal &&
			(total.Refused != 1 || len(total.Reasons) != 1) || tt.want == Fail && total.Failed != 1 {
			t.Errorf("%v: %+v", tt.err, total)
		}
		if (report.Err() != nil) != (tt.want == Fail) {
			t.Errorf("%v: error %v", tt.err, report.Err())
		}
		var table strings.Builder
		if err := report.WriteTable(&table); err != nil || !strings.Contains(table.String(), tt.err.Error()) {
			t.Errorf("%v, table\n%s", err, table.String())
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, reference, Options{Smoke: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestDenormals checks that a device may flush denormal arguments and no others.
func TestDenormals(t *testing.T) {
	values := func(list ...float64) *ir.Data {
		d, err := ir.FromFloats(ir.F32, list, len(list))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	f, err := flush(values(0x1p-127, -0x1p-130, 0x1p-126, 1, math.NaN()))
	if err != nil {
		t.Fatal(err)
	}
	list, err := f.Floats()
	if err != nil || list[0] != 0 || list[1] != 0 || list[2] != 0x1p-126 || list[3] != 1 || !math.IsNaN(list[4]) {
		t.Errorf("flushed to %v, %v", list, err)
	}
	if f, err := flush(values(0, 1)); f != nil || err != nil {
		t.Errorf("nothing to flush: %v, %v", f, err)
	}
	near, err := nearest(values(5, 1, math.NaN()), values(1, 1, 2), values(4, 9, math.NaN())).Floats()
	if err != nil || near[0] != 4 || near[1] != 1 || !math.IsNaN(near[2]) {
		t.Errorf("nearest %v, %v", near, err)
	}
	kept, err := nearest(values(0x1p-130, 0x1p-130, 0x1p-120), values(0, 1, 0), values(0x1p-127, 1, 0)).Floats()
	if err != nil || kept[0] != 0x1p-130 || kept[1] != 1 || kept[2] != 0 {
		t.Errorf("a denormal that was compared as zero: %v, %v", kept, err)
	}
}

// TestReasons checks that refusals which differ in node numbers alone count as one.
func TestReasons(t *testing.T) {
	var s Summary
	for _, reason := range []string{"%1 has no lowering", "%23 has no lowering", "it lacks float64"} {
		s.add(Result{Outcome: Refusal, Reason: reason})
	}
	if want := []string{"%n has no lowering", "it lacks float64"}; s.Refused != 3 || !slices.Equal(s.Reasons, want) {
		t.Errorf("%+v, want %v", s, want)
	}
}

func TestNumber(t *testing.T) {
	for n, want := range map[Number]string{1.5: "1.5", Number(math.Inf(1)): `"inf"`, 0: "0"} {
		if text, err := n.MarshalJSON(); err != nil || string(text) != want {
			t.Errorf("%v is %s, %v", n, text, err)
		}
	}
}
