package fast

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// ofMemory has ops that should take about as long as a copy of their arguments and results, by the classes of dtypes
// that they take.
var ofMemory = []struct{ dtypes, ops string }{
	{"float int", `
		add %x, %y
		mul %x, %y
		div %x, %y
		max %x, %y
		gt %x, %y
		eq %x, %y
		neg %x
		abs %x
		clamp %x {min=1.0, max=5.0}
		where %b, %x, %y
		cast %x {dtype=f32}
		cast %x {dtype=i32}
		cast %x {dtype=i64}
		cast %x {dtype=f64}
		cast %x {dtype=f16}
		cast %x {dtype=bf16}
		cast %x {dtype=bool}
		cast %x {dtype=u8}
		sum %x
		sum %x {axes=[1]}
		sum %x {axes=[0]}
		prod %x {axes=[1]}
		reduce_max %x {axes=[1]}
		reduce_max %x {axes=[0]}
		argmax %x {axis=1}
		argmin %x {axis=0}
		cumsum %x
		cumsum %x {axis=0}
		cumprod %x
		cummax %x
		sort %x
		argsort %x
		top_k_indices %x {k=8}
		max_pool %p {window=[2,2], stride=[2,2]}
	`},
	{"float", `
		sqr %x
		exp %x
		log %x
		sqrt %x
		tanh %x
		sin %x
		gelu %x
		sigmoid %x
		is_nan %x
		floor %x
		erf %x
		pow %x, %y
		powf %x {exponent=3.0}
		lerp %x, %y, %x
		softmax %x
		softmax %x {axis=0}
		log_softmax %x
		layer_norm %x
		rms_norm %x
		l2_normalize %x
		norm2 %x {axes=[1]}
		norm1 %x {axes=[1]}
		variance %x {axes=[1]}
		variance %x {axes=[0]}
		logsumexp %x {axes=[0]}
		log_softmax %x {axis=0}
		l2_normalize %x {axis=0}
		softmax %p {axis=1}
		logsumexp %p {axes=[1]}
		variance %p {axes=[2]}
		logsumexp %x {axes=[1]}
		mean %x {axes=[0]}
		avg_pool %p {window=[2,2], stride=[2,2]}
		resize_linear %p {shape=[256,256]}
		group_norm %p {groups=4}
	`},
	{"int", `
		and %x, %y
		shl %x, %y
		mod %x, %y
		rem %x, %y
		not %x
	`},
	{"bool", `
		and %x, %y
		not %x
		eq %x, %y
		where %x, %x, %y
		any %x {axes=[1]}
		all %x {axes=[0]}
		cast %x {dtype=f32}
		cast %x {dtype=i32}
		cast %x {dtype=i64}
	`},
	{"float int bool", `
		transpose %x {perm=[1,0]}
		slice %x {starts=[1,1], limits=[32767,127]}
		slice %x {starts=[0,0], limits=[32768,128], steps=[1,2]}
		broadcast %r {shape=[32768,128]}
		broadcast %c {shape=[32768,128]}
		flip %x {axes=[1]}
		flip %x {axes=[0]}
		roll %x {shifts=[1,1]}
		concat %x, %y {axis=0}
		concat %x, %y {axis=1}
		pad %x {low=[1,1], high=[1,1]}
		gather %x, %i {axis=0}
		gather %x, %i {axis=1}
		index_select %x, %ir {axis=0}
		index_select %x, %ic {axis=1}
		scatter %x, %i, %y {axis=0}
		resize_nearest %p {shape=[256,256]}
		dynamic_slice %x, %o, %o {shape=[32700,100]}
		dynamic_update_slice %x, %s, %o, %o
		tril %x
		triu %x
	`},
}

// BenchmarkOps compares ops on 4 Mi elements with a copy of as many bytes, on all cores, in turns. It reports how many
// copies the shortest run takes.
func BenchmarkOps(b *testing.B) {
	const rows, n = 1 << 15, 1 << 7
	for _, t := range []ir.DType{ir.F32, ir.I32, ir.I64, ir.F64, ir.Bool, ir.U8, ir.F16, ir.BF16} {
		class := "int"
		if t.IsFloat() {
			class = "float"
		} else if t == ir.Bool {
			class = "bool"
		}
		rng := rand.New(rand.NewPCG(13, 5))
		in := map[string]*ir.Data{}
		input := func(name string, t ir.DType, limit int, dims ...int) {
			d, err := ir.NewData(t, dims...)
			if err != nil {
				b.Fatal(err)
			}
			if t.IsFloat() {
				list := make([]float64, d.Elems())
				for i := range list {
					list[i] = rng.NormFloat64()
				}
				ir.EncodeFloats(d.Bytes, t, list)
			} else {
				list := make([]int64, d.Elems())
				for i := range list {
					list[i] = int64(rng.IntN(limit))
				}
				ir.EncodeInts(d.Bytes, t, list)
			}
			in[name] = d
		}
		limit := 100
		if t == ir.Bool {
			limit = 2
		}
		if t == ir.I32 || t == ir.I64 {
			limit = 1 << 30
		}
		input("x", t, limit, rows, n)
		input("y", t, limit, rows, n)
		input("b", ir.Bool, 2, rows, n)
		input("r", t, limit, n)
		input("c", t, limit, rows, 1)
		input("i", ir.I32, n, rows, n)
		input("ir", ir.I32, rows, rows)
		input("ic", ir.I32, n, n)
		input("p", t, limit, 16, 16, 128, 128)
		input("s", t, limit, rows/2, n/2)
		input("o", ir.I32, 5)
		for _, group := range ofMemory {
			if !slices.Contains(strings.Fields(group.dtypes), class) {
				continue
			}
			for _, op := range strings.Split(strings.TrimSpace(group.ops), "\n") {
				op = strings.TrimSpace(op)
				b.Run(t.String()+"/"+op, func(b *testing.B) {
					var text strings.Builder
					used := map[string]*ir.Data{}
					bytes := 0
					fmt.Fprintln(&text, `graph "op" {`)
					for name, d := range in {
						if strings.Contains(op+" ", "%"+name+" ") || strings.Contains(op, "%"+name+",") {
							fmt.Fprintf(&text, "%%%s = input {name=%q, dtype=%s, shape=%s}\n", name, name, d.DType,
								extents(d.Dims))
							used[name] = d
							bytes += len(d.Bytes)
						}
					}
					fmt.Fprintf(&text, "%%z = %s\noutput \"z\" %%z\n}", op)
					g, err := ir.Parse(text.String())
					if err != nil {
						b.Skip(err)
					}
					p, err := interp.New(g, interp.Options{Replace: Kernels})
					if err != nil {
						b.Skip(err)
					}
					out, err := p.Run(b.Context(), used, nil)
					if err != nil {
						b.Skip(err)
					}
					bytes = (bytes + len(out["z"].Bytes)) / 2
					src := slices.Repeat(in["x"].Bytes, bytes/len(in["x"].Bytes)+1)[:bytes]
					dst := slices.Clone(src)
					best := [2]time.Duration{1 << 60, 1 << 60}
					for b.Loop() {
						start := time.Now()
						if _, err := p.RunInto(b.Context(), used, nil, out); err != nil {
							b.Fatal(err)
						}
						best[0] = min(best[0], time.Since(start))
						start = time.Now()
						var w sync.WaitGroup
						w.Go(func() { copy(dst[:bytes/2], src) })
						copy(dst[bytes/2:], src[bytes/2:])
						w.Wait()
						best[1] = min(best[1], time.Since(start))
					}
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(float64(best[0])/1e6, "ms")
					b.ReportMetric(float64(best[1])/1e6, "ms-copy")
					b.ReportMetric(float64(best[0])/float64(best[1]), "copies")
				})
			}
		}
	}
}
