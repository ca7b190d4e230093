package fast

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// BenchmarkRow multiplies a row by blocks of each format, as generating a token does, and reports bytes of blocks.
func BenchmarkRow(b *testing.B) {
	const n, k = 1024, 4096
	rng := rand.New(rand.NewPCG(13, 1))
	for _, d := range []ir.DType{ir.F16, ir.Q8_0, ir.Q4_0, ir.Q4_K, ir.Q6_K} {
		for _, precision := range []string{ir.PrecisionFull, ir.PrecisionBytes} {
			if precision == ir.PrecisionBytes && (vector == nil || !slices.Contains(byteFormats(), d)) {
				continue
			}
			b.Run(fmt.Sprintf("%s/%s", d, precision), func(b *testing.B) {
				w := &ir.Data{DType: d, Dims: []int{n, k}, Bytes: randomBytes(rng, n*k/d.BlockElems()*d.BlockBytes())}
				g, err := ir.Parse(fmt.Sprintf(`graph "row" {
					%%x = input {name="x", dtype=f32, shape=[1,%d]}
					%%w = weight {name="w", dtype=%s, shape=[%d,%d]}
					%%y = matmul %%x, %%w {transpose_b=true, precision=%q}
					output "y" %%y
				}`, k, d, n, k, precision))
				if err != nil {
					b.Fatal(err)
				}
				p, err := interp.New(g, interp.Options{Weights: oneWeight{w}, Replace: Kernels, Workers: 1})
				if err != nil {
					b.Fatal(err)
				}
				x, err := ir.NewData(ir.F32, 1, k)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(w.Bytes)))
				for b.Loop() {
					if _, err := p.Run(b.Context(), map[string]*ir.Data{"x": x}, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkIndexed moves and adds elements by indices, computes integers, and changes parts of states.
func BenchmarkIndexed(b *testing.B) {
	rng := rand.New(rand.NewPCG(13, 3))
	for _, tt := range []struct{ name, body string }{
		{"histogram i32", `
			%zero = const {data=i32[](0)}
			%bins = broadcast %zero {shape=[256]}
			%one = const {data=i32[](1)}
			%ones = broadcast %one {shape=[1048576]}
			%y = scatter_add %bins, %i256, %ones {axis=0}`},
		{"histogram f32", `
			%zero = const {data=f32[](0.0)}
			%bins = broadcast %zero {shape=[256]}
			%one = const {data=f32[](1.0)}
			%ones = broadcast %one {shape=[1048576]}
			%y = scatter_add %bins, %i256, %ones {axis=0}`},
		{"scatter_add to 1 M", `%y = scatter_add %x, %i1m, %x {axis=0}`},
		{"scatter to 1 M", `%y = scatter %x, %i1m, %x {axis=0}`},
		{"index_add of rows", `%y = index_add %m, %i8k, %m {axis=0}`},
		{"gather of 1 M", `%y = gather %x, %i1m {axis=0}`},
		{"index_select of rows", `%y = index_select %m, %i8k {axis=0}`},
		{"index_select of columns", `%y = index_select %m, %i128 {axis=1}`},
		{"gather_nd of rows", `
			%at = reshape %i8k {shape=[8192,1]}
			%y = gather_nd %m, %at`},
		{"a state, scatter_add", `
			%s = state {name="s", dtype=f32, shape=[4194304,4]}
			%at = reshape %i8k {shape=[8192,1]}
			%all = broadcast %at {shape=[8192,4]}
			%part = slice %m {starts=[0,0], limits=[8192,4]}
			%new = scatter_add %s, %all, %part {axis=0}
			update %s = %new
			%y = sum %part`},
		{"a state, 1 M elements", `
			%s = state {name="s", dtype=f32, shape=[16777216]}
			%new = scatter_add %s, %i1m, %x {axis=0}
			update %s = %new
			%y = sum %x`},
		{"a state, a region", `
			%s = state {name="s", dtype=f32, shape=[4096,4096]}
			%at = const {data=i32[](7)}
			%rows = dynamic_slice %s, %at {axis=0, size=[64]}
			%part = slice %m {starts=[0,0], limits=[64,64]}
			%now = dynamic_update_slice %rows, %part, %at {axis=1}
			%new = dynamic_update_slice %s, %now, %at {axis=0}
			update %s = %new
			%y = sum %part`},
		{"i32 arithmetic", `
			%a = add %i1m, %i256
			%c = mul %a, %i1m
			%y = max %c, %i256`},
		{"i32 compare, count", `
			%a = lt %i1m, %i256
			%c = cast %a {dtype=i32}
			%y = sum %c`},
		{"i32 sum", `%y = sum %i1m`},
		{"i32 to f32", `%y = cast %i1m {dtype=f32}`},
		{"f32 to i32", `%y = cast %x {dtype=i32}`},
		{"compare", `%y = gt %x, %x`},
		{"mask and select", `
			%z = const {data=f32[](0.0)}
			%a = gt %x, %z
			%c = lt %i1m, %i256
			%d = and %a, %c
			%y = where %d, %x, %z`},
		{"u8 to f32", `%y = cast %u {dtype=f32}`},
		{"one_hot of i32", `
			%k = iota {axis=1, dtype=i32, shape=[1,128]}
			%i = reshape %i8k {shape=[8192,1]}
			%e = eq %i, %k
			%y = cast %e {dtype=f32}`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			g, err := ir.Parse(fmt.Sprintf(`graph "indexed" {
				%%x = input {name="x", dtype=f32, shape=[1048576]}
				%%m = input {name="m", dtype=f32, shape=[8192,128]}
				%%u = input {name="u", dtype=u8, shape=[1048576]}
				%%i1m = input {name="i1048576", dtype=i32, shape=[1048576]}
				%%i256 = input {name="i256", dtype=i32, shape=[1048576]}
				%%i8k = input {name="i8192", dtype=i32, shape=[8192]}
				%%i128 = input {name="i128", dtype=i32, shape=[128]}
				%s
				output "y" %%y
			}`, tt.body))
			if err != nil {
				b.Fatal(err)
			}
			p, err := interp.New(g, interp.Options{Replace: Kernels})
			if err != nil {
				b.Fatal(err)
			}
			in := map[string]*ir.Data{}
			for _, n := range g.Leaves(ir.OpInput) {
				dims, err := n.Shape().Eval(nil)
				if err != nil {
					b.Fatal(err)
				}
				limit := 100
				fmt.Sscanf(n.Name(), "i%d", &limit)
				list := make([]float64, n.Shape().MaxElems())
				for i := range list {
					list[i] = float64(rng.IntN(limit))
				}
				if in[n.Name()], err = ir.FromFloats(n.DType(), list, dims...); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := p.Run(b.Context(), in, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	x := make([]byte, 4<<20)
	b.Run("copy of 4 MiB", func(b *testing.B) {
		for b.Loop() {
			copy(make([]byte, len(x)), x)
		}
	})
	ids, bins := make([]int32, 1<<20), make([]int32, 256)
	for i := range ids {
		ids[i] = rng.Int32N(256)
	}
	b.Run("histogram in plain Go", func(b *testing.B) {
		for b.Loop() {
			for _, i := range ids {
				bins[i]++
			}
		}
	})
}

// BenchmarkFold folds the rows of matrices, and copies one for comparison. It reports bytes of arguments.
func BenchmarkFold(b *testing.B) {
	const rows, n = 100000, 128
	x, err := ir.NewData(ir.F32, rows, n)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(13, 2))
	for i, list := 0, make([]float64, rows*n); i < 1; i++ {
		for k := range list {
			list[k] = rng.NormFloat64()
		}
		ir.EncodeFloats(x.Bytes, ir.F32, list)
	}
	for _, of := range []string{"sum %x {axes=[1]}", "sum %x {axes=[0]}", "sum %x", "norm2 %x {axes=[1]}",
		"reduce_max %x {axes=[1]}", "reduce_max %x {axes=[0]}", "variance %x {axes=[1]}", "logsumexp %x {axes=[1]}",
		"softmax %x", "softmax %x {axis=0}", "layer_norm %x", "rms_norm %x", "argmax %x {axis=1}", "argmax %x {axis=0}",
		"cumsum %x {axis=1}", "cumsum %x {axis=0}", "transpose %x {perm=[1,0]}", "sort %x {axis=1}"} {
		b.Run(of, func(b *testing.B) {
			g, err := ir.Parse(fmt.Sprintf(`graph "fold" {
				%%x = input {name="x", dtype=f32, shape=[%d,%d]}
				%%y = %s
				output "y" %%y
			}`, rows, n, of))
			if err != nil {
				b.Fatal(err)
			}
			p, err := interp.New(g, interp.Options{Replace: Kernels})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(x.Bytes)))
			for b.Loop() {
				if _, err := p.Run(b.Context(), map[string]*ir.Data{"x": x}, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(int64(len(x.Bytes)))
		for b.Loop() {
			copy(make([]byte, len(x.Bytes)), x.Bytes)
		}
	})
}

// BenchmarkMultiply multiplies matrices of float32 with each width of vectors, on one core. It reports multiply-adds as
// bytes.
func BenchmarkMultiply(b *testing.B) {
	defer func(v *assembly) { vector = v }(vector)
	rng := rand.New(rand.NewPCG(13, 3))
	for _, vector = range assemblies() {
		for _, k := range []int{27, 64, 576, 1024} {
			b.Run(fmt.Sprintf("%s/%d", vector.name, k), func(b *testing.B) {
				x, y, out := whole(rng, tileRows*k), whole(rng, tileCols*k), make([]float32, tileRows*tileCols)
				b.SetBytes(int64(tileRows * tileCols * k))
				for b.Loop() {
					multiply(out, tileCols, x, y, tileRows, tileCols, k)
				}
			})
		}
	}
}

// BenchmarkInts computes matmuls and convolutions of int8 with each width of vectors.
func BenchmarkInts(b *testing.B) {
	defer func(v *assembly) { vector = v }(vector)
	rng := rand.New(rand.NewPCG(13, 4))
	for _, c := range []struct {
		op   string
		x, w []int
	}{
		{"matmul %x, %w", []int{1, 1024}, []int{1024, 1024}}, {"matmul %x, %w", []int{256, 1024}, []int{1024, 1024}},
		{"conv %x, %w {padding_low=[1,1], padding_high=[1,1]}", []int{1, 64, 64, 64}, []int{64, 64, 3, 3}},
	} {
		for _, vector = range assemblies() {
			b.Run(fmt.Sprintf("%s/%v", vector.name, c.x), func(b *testing.B) {
				w := extremes(rng, ir.I8, c.w...)
				g, err := ir.Parse(fmt.Sprintf(`graph "row" {
					%%x = input {name="x", dtype=i8, shape=%s}
					%%w = weight {name="w", dtype=i8, shape=%s}
					%%y = %s
					output "y" %%y
				}`, extents(c.x), extents(c.w), c.op))
				if err != nil {
					b.Fatal(err)
				}
				p, err := interp.New(g, interp.Options{Weights: oneWeight{w}, Replace: Kernels})
				if err != nil {
					b.Fatal(err)
				}
				in := map[string]*ir.Data{"x": extremes(rng, ir.I8, c.x...)}
				for b.Loop() {
					if _, err := p.Run(b.Context(), in, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
