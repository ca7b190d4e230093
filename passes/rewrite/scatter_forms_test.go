package rewrite_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
)

// scatterText is a scatter in each way to give its places: rows along an inner axis, elements, and rows of coordinates.
var scatterText = map[string]string{
	"index_add": `%base = input {name="base", dtype=T, shape=[2,9,3]}
		%ids = input {name="ids", dtype=i32, shape=[40]}
		%updates = input {name="updates", dtype=T, shape=[2,40,3]}
		%y = index_add %base, %ids, %updates {axis=1}`,
	"scatter_add": `%base = input {name="base", dtype=T, shape=[2,9,3]}
		%ids = input {name="ids", dtype=i32, shape=[2,40,3]}
		%updates = input {name="updates", dtype=T, shape=[2,40,3]}
		%y = scatter_add %base, %ids, %updates {axis=1, mode="MODE"}`,
	"scatter": `%base = input {name="base", dtype=T, shape=[2,9,3]}
		%ids = input {name="ids", dtype=i32, shape=[2,40,3]}
		%updates = input {name="updates", dtype=T, shape=[2,40,3]}
		%y = scatter %base, %ids, %updates {axis=1}`,
	"scatter_nd_add": `%base = input {name="base", dtype=T, shape=[9,3]}
		%ids = input {name="ids", dtype=i32, shape=[40,1]}
		%updates = input {name="updates", dtype=T, shape=[40,3]}
		%y = scatter_nd_add %base, %ids, %updates {mode="MODE"}`,
	"scatter_nd": `%base = input {name="base", dtype=T, shape=[9,3]}
		%ids = input {name="ids", dtype=i32, shape=[40,1]}
		%updates = input {name="updates", dtype=T, shape=[40,3]}
		%y = scatter_nd %base, %ids, %updates`,
}

// landings are patterns of indices into nine places.
var landings = map[string]func(rng *rand.Rand, i int) int64{
	"few":     func(rng *rand.Rand, _ int) int64 { return int64(rng.IntN(3)) },
	"one":     func(*rand.Rand, int) int64 { return 4 },
	"each":    func(_ *rand.Rand, i int) int64 { return int64(i % 9) },
	"outside": func(rng *rand.Rand, _ int) int64 { return []int64{-1, 9, math.MinInt32, math.MaxInt32, 2}[rng.IntN(5)] },
}

// specials are floats that meet others: infinite, NaN, of both signs of 0, the smallest, and ones that cancel.
var specials = []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1), 1e-45, 1e-30, 3e38, 1, -1,
	0.1, 1 << 20}

// TestScatterForms: a scatter means the same in each of its forms, whatever its indices, updates and dtype are.
func TestScatterForms(t *testing.T) {
	forms := map[kernel.Form]string{"accumulate": "vkc.scatter_", "sort": "_equal_", "compare": ""}
	for op, text := range scatterText {
		modes := []string{"add"}
		if strings.Contains(text, "MODE") {
			modes = []string{"add", "mul", "min", "max"}
		}
		for _, mode := range modes {
			for _, dtype := range []ir.DType{ir.F32, ir.F16, ir.I32, ir.U32, ir.I8, ir.U8, ir.I64, ir.F64} {
				named := strings.NewReplacer("MODE", mode, "=T", "="+dtype.String())
				g := passtest.Parse(t, named.Replace(text)+"\n output \"y\" %y")
				for form, kernel := range forms {
					s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Form: form}})
					if err != nil {
						t.Fatalf("%s %s of %s, %s: %v", op, mode, dtype, form, err)
					}
					wide := dtype == ir.F64 || dtype == ir.I64 && mode != "add"
					has := form == "accumulate" && mode != "mul" && (!wide || !strings.HasSuffix(op, "add")) ||
						form == "sort"
					if got := kernel != "" && strings.Contains(s.Text(), kernel); got != has {
						t.Errorf("%s %s of %s, %s: it has such kernels: %v, want %v", op, mode, dtype, form, got, has)
					}
					compare := scatterComparer(t, g, s)
					for name, index := range landings {
						for seed := range uint64(3) {
							if err := compare(seed, index); err != nil {
								t.Errorf("%s %s of %s, %s, seed %d, %s: %v", op, mode, dtype, form, seed, name, err)
							}
						}
					}
				}
			}
		}
	}
}

// scatterComparer returns a function that runs kernels and the reference on values of a seed. By an even seed there are
// special floats among the updates.
func scatterComparer(t *testing.T, g *ir.Graph, s *passes.State) func(uint64, func(*rand.Rand, int) int64) error {
	t.Helper()
	reference, err := interp.New(g, interp.Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := keval.New(s.Program, s.Kernels, keval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	y := g.Outputs()[0].Node
	tol := y.Op().Info().Tol
	if !y.DType().IsFloat() {
		tol = ir.Tolerance{}
	}
	return func(seed uint64, index func(*rand.Rand, int) int64) error {
		in, err := scatterValues(g, seed, index)
		if err != nil {
			return err
		}
		want, err := reference.Run(context.Background(), in, nil)
		if err != nil {
			return err
		}
		have, err := m.Run(in, nil)
		if err != nil {
			return err
		}
		if err := interp.Compare(have["y"], want["y"], tol).Err(); err != nil {
			return fmt.Errorf("%w\nhave %v\nwant %v", err, have["y"], want["y"])
		}
		return nil
	}
}

// scatterValues returns the inputs of a scatter.
func scatterValues(g *ir.Graph, seed uint64, index func(*rand.Rand, int) int64) (map[string]*ir.Data, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	in := map[string]*ir.Data{}
	for _, n := range g.Leaves(ir.OpInput) {
		dims, err := n.Shape().Eval(nil)
		if err != nil {
			return nil, err
		}
		count := 1
		for _, d := range dims {
			count *= d
		}
		ints, floats := make([]int64, count), make([]float64, count)
		for i := range count {
			lo, hi := ir.IntRange(n.DType())
			ints[i] = []int64{lo, hi, int64(rng.IntN(5))}[rng.IntN(3)]
			floats[i] = float64(rng.IntN(64))/16 - 2
			if n.Name() == "ids" {
				ints[i] = index(rng, i)
			}
			if seed%2 == 0 && n.Name() == "updates" && rng.IntN(8) == 0 {
				floats[i] = specials[rng.IntN(len(specials))]
			}
		}
		if n.DType().IsFloat() {
			in[n.Name()], err = ir.FromFloats(n.DType(), floats, dims...)
		} else {
			in[n.Name()], err = ir.FromInts(n.DType(), ints, dims...)
		}
		if err != nil {
			return nil, err
		}
	}
	return in, nil
}

// TestAccumulatedBits: sums of floats have the same bits in any order of their updates.
func TestAccumulatedBits(t *testing.T) {
	const text = `%base = input {name="base", dtype=f32, shape=[3]}
		%ids = input {name="ids", dtype=i32, shape=[4000]}
		%updates = input {name="updates", dtype=f32, shape=[4000]}
		%y = scatter_add %base, %ids, %updates
		output "y" %y`
	s, err := passes.Run(passtest.Parse(t, text), passes.Options{Pricer: passtest.Choices{Form: "accumulate"}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	ids, updates := make([]int64, 4000), make([]float64, 4000)
	for i := range ids {
		ids[i] = int64(rng.IntN(3))
		updates[i] = math.Ldexp(rng.Float64()-0.5, rng.IntN(40)-20)
	}
	var first []byte
	exact := make([]float64, 3)
	for i, id := range ids {
		exact[id] += float64(float32(updates[i]))
	}
	for range 3 {
		in := map[string]*ir.Data{}
		base, err1 := ir.FromFloats(ir.F32, make([]float64, 3), 3)
		at, err2 := ir.FromInts(ir.I32, ids, 4000)
		values, err3 := ir.FromFloats(ir.F32, updates, 4000)
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		in["base"], in["ids"], in["updates"] = base, at, values
		m, err := keval.New(s.Program, s.Kernels, keval.Options{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := m.Run(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = out["y"].Bytes
		}
		if !slices.Equal(first, out["y"].Bytes) {
			t.Errorf("bits differ: %v, then %v", first, out["y"].Bytes)
		}
		have, err := out["y"].Floats()
		if err != nil {
			t.Fatal(err)
		}
		for i := range exact { // far closer than sums in f32 are
			if math.Abs(have[i]-exact[i]) > 1e-7*math.Abs(exact[i]) {
				t.Errorf("place %d: %v, want %v", i, have[i], exact[i])
			}
		}
		rng.Shuffle(len(ids), func(i, j int) {
			ids[i], ids[j] = ids[j], ids[i]
			updates[i], updates[j] = updates[j], updates[i]
		})
	}
}

// TestUnordered: if the graph allows float additions in any order, they use float atomics, or compare-and-swap on the
// bits if the device has no float atomics. Other dtypes and modes have their own implementations.
func TestUnordered(t *testing.T) {
	atomics := []string{"atomicFloat32Add", "sharedAtomicFloat32Add"}
	for op, text := range scatterText {
		if !strings.HasSuffix(op, "add") {
			continue
		}
		for _, dtype := range []ir.DType{ir.F32, ir.F16, ir.BF16, ir.F8E4M3, ir.F64, ir.I32, ir.I64} {
			for _, mode := range []string{"add", "max"} {
				for _, allowed := range []bool{true, false} {
					for lacks, want := range map[string]string{"": "vkc.scatter_float", "both": "vkc.scatter_swap"} {
						named := strings.NewReplacer("MODE", mode, "=T", "="+dtype.String()).Replace(text)
						if mode == "max" && named == strings.ReplaceAll(text, "=T", "="+dtype.String()) {
							continue // it has no mode
						}
						end := strings.LastIndex(named, "}")
						if op == "index_add" || strings.Contains(named, "mode=") {
							named = named[:end] + fmt.Sprintf(", unordered=%v", allowed) + named[end:]
						}
						g := passtest.Parse(t, named+"\n output \"y\" %y")
						choices := passtest.Choices{Form: "any order"}
						if lacks != "" {
							choices.Lacks = atomics
						}
						s, err := passes.Run(g, passes.Options{Pricer: choices})
						if err != nil {
							t.Fatal(err)
						}
						name := fmt.Sprintf("%s %s of %s, unordered=%v, lacks %q", op, mode, dtype, allowed, lacks)
						is := allowed && dtype.IsFloat() && dtype != ir.F64 && mode == "add"
						if strings.Contains(s.Text(), want) != is {
							t.Errorf("%s: want %s %v:\n%s", name, want, is, s.Text())
						}
						compare := scatterComparer(t, g, s)
						for at, index := range landings {
							if err := compare(1, index); err != nil {
								t.Errorf("%s, %s: %v", name, at, err)
							}
							if err := compare(2, index); err != nil {
								t.Errorf("%s, %s, special: %v", name, at, err)
							}
						}
					}
				}
			}
		}
	}
}

// TestUnorderedPrice: any order is the cheapest for many updates, in shared memory if they have few destinations.
func TestUnorderedPrice(t *testing.T) {
	atomics := []string{"atomicFloat32Add", "sharedAtomicFloat32Add"}
	for _, tt := range []struct {
		places, updates string
		lacks           []string
		want            string
	}{
		{"1000000", "1000000", nil, "vkc.scatter_float ;"},
		{"1000000", "1000000", atomics, "vkc.scatter_swap ;"},
		{"1000000", "1000000", atomics[1:], "vkc.scatter_float ;"},
		{"256", "1000000", nil, "vkc.scatter_float_near ;"},
		{"256", "1000000", atomics[1:], "vkc.scatter_swap_near ;"},
		{"5000", "1000000", atomics, "vkc.scatter_swap_near ;"}, // two windows
		{"256", "1000000", atomics, "vkc.scatter_swap_near ;"},
	} {
		s, err := passes.Run(passtest.Parse(t, strings.NewReplacer("PLACES", tt.places, "UPDATES", tt.updates).Replace(`
			%base = input {name="base", dtype=f32, shape=[PLACES]}
			%ids = input {name="ids", dtype=i32, shape=[UPDATES]}
			%updates = input {name="updates", dtype=f32, shape=[UPDATES]}
			%y = scatter_add %base, %ids, %updates {unordered=true}
			output "y" %y`)), passes.Options{Pricer: passtest.Choices{Lacks: tt.lacks}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ReplaceAll(s.Text(), "\n", " ;\n"), tt.want) {
			t.Errorf("%s into %s without %v: want %s:\n%s", tt.updates, tt.places, tt.lacks, tt.want, s.Text())
		}
	}
}

// TestUnorderedRows: rows of neighbours are cheaper to add by atomics than to sort, if any order is allowed.
func TestUnorderedRows(t *testing.T) {
	for attrs, want := range map[string]string{"": "vkc.rows_add_equal_f32", ", unordered=true": "vkc.scatter_float"} {
		s, err := passes.Run(passtest.Parse(t, fmt.Sprintf(`
			%%base = input {name="base", dtype=f32, shape=[50257,768]}
			%%ids = input {name="ids", dtype=i32, shape=[8192]}
			%%updates = input {name="updates", dtype=f32, shape=[8192,768]}
			%%y = index_add %%base, %%ids, %%updates {axis=0%s}
			output "y" %%y`, attrs)), passes.Options{Pricer: passtest.Choices{}})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(s.Text(), want) {
			t.Errorf("%q: want %s:\n%s", attrs, want, s.Text())
		}
	}
}

// TestScatteredStates: many updates of a state in place are not compared with one another, in any scatter op.
func TestScatteredStates(t *testing.T) {
	const leaves = `symbol N <= 20
		%table = state {name="table", dtype=T, shape=[30,25]}
		%ids = input {name="ids", dtype=i32, shape=[N]}
		%each = input {name="each", dtype=i32, shape=[N,25]}
		%turned = input {name="turned", dtype=i32, shape=[30,N]}
		%rows = input {name="rows", dtype=T, shape=[N,25]}
		%columns = input {name="columns", dtype=T, shape=[30,N]}
		%at = reshape %ids {shape=[N,1]}
		`
	for form, kernel := range map[kernel.Form]string{"accumulate": "vkc.scatter_", "sort": "_equal_", "compare": ""} {
		for i, dtype := range []ir.DType{ir.F32, ir.F16, ir.I32, ir.U8, ir.I64, ir.F64} {
			for j, write := range []string{"scatter_nd %table, %at, %rows", "scatter_nd_add %table, %at, %rows",
				"scatter_nd_add %table, %at, %rows {mode=\"max\"}", "index_add %table, %ids, %rows {axis=0}",
				"scatter %table, %each, %rows", "scatter %table, %turned, %columns {axis=1}",
				"scatter_add %table, %each, %rows", "scatter_add %table, %turned, %columns {axis=1, mode=\"mul\"}",
				"scatter_add %table, %turned, %columns {axis=1, mode=\"min\"}"} {
				leaves := strings.ReplaceAll(leaves, "=T", "="+dtype.String())
				g := passtest.Parse(t, leaves+"%y = "+write+"\n update %table = %y")
				s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Form: form}})
				if err != nil {
					t.Fatal(err)
				}
				text := s.Text()
				if strings.Contains(text, "vkc.") != (kernel != "") || !strings.Contains(text, kernel) ||
					!strings.Contains(text, ", "+strings.Fields(write)[0]+"\n") { // the op is a kernel's only in place
					t.Errorf("%s of %s, %s: has other kernels, or is not in place:\n%s", write, dtype, form, text)
				}
				// Check takes all forms. Each op and mode computes with half of the dtypes.
				if form != "compare" || (i+j)%2 > 0 && os.Getenv(pairs.Env) != "all" {
					continue
				}
				if _, c, err := passtest.Check(g, 1, 4); err != nil || c.Ran == 0 {
					t.Errorf("%s of %s: %d runs, %v", write, dtype, c.Ran, err)
				}
			}
		}
	}
}

// TestScattersBounded: no scatter of many updates compares each with every place, or with each other update, whatever
// its dtype and its mode are, in place or not, and with 64-bit integers or without.
func TestScattersBounded(t *testing.T) {
	const places, updates = "100000", "70001"
	ops := map[string]string{
		"scatter":        "scatter %base, %ids, %updates",
		"scatter_add":    `scatter_add %base, %ids, %updates {mode="MODE"}`,
		"index_add":      "index_add %base, %ids, %updates {axis=0}",
		"scatter_nd":     "scatter_nd %base, %at, %updates",
		"scatter_nd_add": `scatter_nd_add %base, %at, %updates {mode="MODE"}`,
	}
	for op, call := range ops {
		modes := []string{"add"}
		if strings.Contains(call, "MODE") {
			modes = []string{"add", "mul", "min", "max"}
		}
		for _, mode := range modes {
			for _, dtype := range []ir.DType{ir.F32, ir.F16, ir.BF16, ir.F8E4M3, ir.F64, ir.I32, ir.U32, ir.I16, ir.I8,
				ir.U8, ir.I64} {
				for _, into := range []string{"input", "state"} {
					for _, lacks := range [][]string{nil, {"int64"}} {
						text := fmt.Sprintf(`
							%%base = %s {name="base", dtype=%s, shape=[%s]}
							%%ids = input {name="ids", dtype=i32, shape=[%s]}
							%%at = reshape %%ids {shape=[%[4]s,1]}
							%%updates = input {name="updates", dtype=%[2]s, shape=[%[4]s]}
							%%y = `, into, dtype, places, updates) + strings.ReplaceAll(call, "MODE", mode)
						if into == "state" {
							text += "\n update %base = %y"
						} else {
							text += "\n output \"y\" %y"
						}
						name := fmt.Sprintf("%s %s of %s into %s without %v", op, mode, dtype, into, lacks)
						choices := passtest.Choices{Lacks: lacks}
						s, err := passes.Run(passtest.Parse(t, text), passes.Options{Pricer: choices})
						if err != nil {
							t.Errorf("%s: %v", name, err)
							continue
						}
						for _, k := range s.Kernels {
							points := float64(ir.Shape(k.Parallel).MaxElems()) * float64(max(k.Fold.Max(), 1))
							if points > 1e8 {
								t.Errorf("%s: kernel %s has %.1e steps", name, k.Name, points)
							}
							if k.Family != kernel.FamilyCustom || len(lacks) == 0 {
								continue
							}
							for _, b := range k.Bindings {
								if b.DType == ir.I64 {
									t.Errorf("%s: kernel %s computes with i64", name, k.Name)
								}
							}
						}
					}
				}
			}
		}
	}
}
