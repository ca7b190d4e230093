package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
)

// TestFusedRandomRowsOnDevice fuses random norms and slices with random matmuls. It uses the device's own schedules,
// the ones of another device class and the ones without subgroups. It compares runs for several symbol values with the
// reference.
func TestFusedRandomRowsOnDevice(t *testing.T) {
	devtest.NeedTools(t)
	dev := devtest.OpenDevice(t)
	own := dev.Caps()
	other := own // keeps rows resident and rounds them
	other.VendorID, other.Type, other.Cores = device.VendorNVIDIA, device.DeviceDiscrete, 1
	alone := own // sums rows in shared memory
	alone.SubgroupOps = 0
	found := map[string]int{}
	for seed := range uint64(18) {
		g := randomRows(t, seed)
		caps := []device.Caps{own, other, alone}[seed%3]
		p := compileWith(t, caps, g, compiler.Options{Pricer: fuseAllRows})
		source := strings.Join(p.Contents.GLSL, "\n")
		for _, word := range []string{"sum_sq_parts", "slice_col", "other_sum", "_weighed", "round_bytes"} {
			if strings.Contains(source, word) {
				found[word]++
			}
		}
		if err := compareRuns(dev, p, graphgen.Values{Seed: seed, Graph: g}); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, g)
		}
	}
	ways := 5
	if !own.Features.IntegerDotProduct {
		ways-- // round_bytes
	}
	if len(found) < ways {
		t.Errorf("of all ways to join, graphs took only these: %v", found)
	}
}

// compareRuns runs a program and compares results and states with the reference.
func compareRuns(dev *vkc.Device, p *vkc.Program, values graphgen.Values) error {
	ctx, g := context.Background(), values.Graph
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: values})
	if err != nil {
		return err
	}
	defer exe.Close()
	ref, err := interp.New(g, interp.Options{Weights: values})
	if err != nil {
		return err
	}
	bounds := graphgen.Bounds(g)
	for i, symbols := range values.Symbols(3) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			return err
		}
		want, err := ref.Run(ctx, in, symbols)
		if err != nil {
			return err
		}
		res, err := exe.Run(ctx, in, runtime.RunOptions{Symbols: symbols})
		if err != nil {
			return err
		}
		for _, o := range g.Outputs() {
			if err := interp.Compare(res.Outputs[o.Name], want[o.Name], bounds[o.Node.ID()].Tolerance(o.Node)).
				Err(); err != nil {
				return fmt.Errorf("run %d with %v: output %s: %w", i, symbols, o.Name, err)
			}
		}
		for _, u := range g.Updates() {
			have, err := exe.ReadState(u.State.Name())
			if err != nil {
				return err
			}
			want, err := ref.State(u.State.Name())
			if err != nil {
				return err
			}
			if err := interp.Compare(have, want, bounds[u.Value.ID()].Tolerance(u.Value)).Err(); err != nil {
				return fmt.Errorf("run %d with %v: state %s: %w", i, symbols, u.State.Name(), err)
			}
		}
	}
	return nil
}

// rowsGen makes a random graph: rows, a norm of them, matmuls of the norm, and ops on slices of the results.
type rowsGen struct {
	*rand.Rand
	text   strings.Builder
	ends   []string
	weight string // dtype of weights
	attrs  string // of the matmuls
	depth  int
	one    bool // there is one row
	slices int
}

func randomRows(t *testing.T, seed uint64) *ir.Graph {
	t.Helper()
	r := &rowsGen{Rand: rand.New(rand.NewPCG(seed, 31))}
	r.rows()
	for i := range 1 + r.IntN(2) {
		r.matmul(i)
	}
	r.ends = append(r.ends, `output "length" %length`)
	slices.SortStableFunc(r.ends, func(a, b string) int { return strings.Compare(a[:1], b[:1]) }) // outputs first
	text := "graph \"rows\" {\n" + r.text.String() + strings.Join(r.ends, "\n") + "\n}"
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return g
}

func (r *rowsGen) coin() bool { return r.IntN(2) == 0 }

func (r *rowsGen) pick(list ...string) string { return list[r.IntN(len(list))] }

func (r *rowsGen) line(format string, args ...any) { fmt.Fprintf(&r.text, format+"\n", args...) }

// rows makes the rows, sometimes with a matmul, and their norm, %n.
func (r *rowsGen) rows() {
	r.weight, r.attrs = r.pick("f32", "q8_0", "q4_0", "q4_0", "iq4_nl", "q4_K"), "{transpose_b=true}"
	unit := map[string]int{"f32": 4, "q4_K": 256}[r.weight]
	if unit == 0 {
		unit = 32
	}
	if r.weight != "f32" && r.coin() {
		r.attrs = `{transpose_b=true, precision="int8"}`
	}
	r.depth = unit * (1 + r.IntN(min(9, 1024/unit)))
	rows := r.pick("1", "1", "1", "3", "T")
	r.one = rows == "1"
	r.line("symbol T <= 5")
	r.line(`%%length = input {name="length", dtype=f32, shape=[T]}`)
	r.line(`%%at = input {name="at", dtype=i32, shape=[]}`)
	r.line(`%%pos = input {name="pos", dtype=i32, shape=[1]}`)
	r.line(`%%x0 = input {name="x", dtype=f32, shape=[%s,%d]}`, rows, r.depth)
	x := "%x0"
	if r.coin() {
		r.line(`%%u = weight {name="u", dtype=%s, shape=[%d,%d]}`, r.weight, r.depth, r.depth)
		r.line(`%%x1 = matmul %%x0, %%u {transpose_b=true}`)
		x = "%x1"
	}
	r.line(`%%g = weight {name="g", dtype=f32, shape=[%d]}`, 2*r.depth)
	r.line("%%n = rms_norm %s {eps=0.01}", x)
}

// matmul makes matmul i of the norm, or of a weighted norm, and slices of the result.
func (r *rowsGen) matmul(i int) {
	from := "%n"
	if r.coin() {
		r.line(`%%g%d = slice %%g {starts=[%d], limits=[%d]}`, i, i*r.depth, (i+1)*r.depth)
		r.line(`%%a%d = mul %%n, %%g%d`, i, i)
		from = fmt.Sprintf("%%a%d", i)
	}
	heads, dim, parts := 1+r.IntN(4), 2*(1+r.IntN(8)), 1+r.IntN(3)
	width := heads * dim
	cols := width*parts + r.IntN(7)
	r.line(`%%w%d = weight {name="w%d", dtype=%s, shape=[%d,%d]}`, i, i, r.weight, cols, r.depth)
	r.line(`%%p%d = matmul %s, %%w%d %s`, i, from, i, r.attrs)
	row := fmt.Sprintf("%%p%d", i)
	if r.coin() {
		r.line(`%%b%d = weight {name="b%d", dtype=f32, shape=[%d]}`, i, i, cols)
		r.line(`%%q%d = add %%p%d, %%b%d`, i, i, i)
		row = fmt.Sprintf("%%q%d", i)
	}
	if !r.one || r.IntN(4) == 0 {
		r.line(`%%y%d = silu %s`, i, row)
		r.ends = append(r.ends, fmt.Sprintf(`output "y%d" %%y%d`, i, i))
	}
	for range parts {
		if r.one {
			r.slice(row, r.IntN(cols-width+1), heads, dim)
		}
	}
}

// slice goes over columns of a row from one on: it turns them, or not, on their
// way to an output or into a cache.
func (r *rowsGen) slice(row string, from, heads, dim int) {
	i, t := r.slices, "f32"
	r.slices++
	r.line(`%%s%d = slice %s {starts=[0,%d], limits=[1,%d]}`, i, row, from, from+heads*dim)
	r.line(`%%h%d = reshape %%s%d {shape=[%d,1,%d]}`, i, i, heads, dim)
	v := fmt.Sprintf("%%h%d", i)
	if r.coin() {
		r.line(`%%r%d = rope %s, %%pos {axis=1, base=100.0, mode=%q}`, i, v,
			r.pick("interleaved", "interleaved", "half"))
		v = fmt.Sprintf("%%r%d", i)
	}
	if r.coin() {
		r.line(`%%c%d = cast %s {dtype=f16}`, i, v)
		v, t = fmt.Sprintf("%%c%d", i), "f16"
	}
	if r.IntN(3) == 0 {
		r.ends = append(r.ends, fmt.Sprintf(`output "o%d" %s`, i, v))
		return
	}
	r.line(`%%k%d = state {name="k%d", dtype=%s, shape=[%d,4,%d]}`, i, i, t, heads, dim)
	r.line(`%%e%d = dynamic_update_slice %%k%d, %s, %%at {axis=1}`, i, i, v)
	r.ends = append(r.ends, fmt.Sprintf("update %%k%d = %%e%d", i, i))
	if r.IntN(3) == 0 { // the cache is read once it is written
		r.line(`%%f%d = sigmoid %%e%d`, i, i)
		r.ends = append(r.ends, fmt.Sprintf(`output "f%d" %%f%d`, i, i))
	}
}
