package glsl_test

import (
	"fmt"
	"github.com/vkc-go/vkc/codegen/glsl"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// goldenCase is a graph in text IR with golden shaders for its kernels.
type goldenCase struct {
	name, graph string
	schedule    func(s kernel.Schedule) kernel.Schedule // changes the device's schedule; may be nil
}

var goldenCases = []goldenCase{
	{name: "map_bias_gelu", graph: `graph "g" {
		symbol T <= 512
		%0 = input {name="x", dtype=f16, shape=[T,768]} : f16[T,768]
		%1 = weight {name="bias", dtype=f32, shape=[768]} : f32[768]
		%2 = cast %0 {dtype=f32} : f32[T,768]
		%3 = add %2, %1 : f32[T,768]
		%4 = gelu %3 : f32[T,768]
		output "y" %4
	}`},
	{name: "map_quantize", graph: `graph "g" {
		%0 = input {name="x", dtype=f32, shape=[1001]} : f32[1001]
		%1 = input {name="scale", dtype=f32, shape=[]} : f32[]
		%2 = div %0, %1 : f32[1001]
		%3 = round %2 : f32[1001]
		%4 = cast %3 {dtype=i8} : i8[1001]
		output "y" %4
	}`},
	{name: "map_flat", graph: `graph "g" {
		%0 = input {name="a", dtype=f32, shape=[4,6,100]} : f32[4,6,100]
		%1 = input {name="b", dtype=f32, shape=[4,6,100]} : f32[4,6,100]
		%2 = mul %0, %1 : f32[4,6,100]
		%3 = relu %2 : f32[4,6,100]
		output "y" %3
		output "product" %2
	}`},
	{name: "map_embedding", graph: `graph "g" {
		symbol T <= 512
		%0 = weight {name="table", dtype=q8_0, shape=[32000,288]} : q8_0[32000,288]
		%1 = input {name="tokens", dtype=i32, shape=[T]} : i32[T]
		%2 = dequantize %0 {dtype=f32} : f32[32000,288]
		%3 = embedding %2, %1 : f32[T,288]
		output "y" %3
	}`},
	{name: "map_transpose_concat", graph: `graph "g" {
		%0 = input {name="a", dtype=f32, shape=[12,5]} : f32[12,5]
		%1 = input {name="b", dtype=f32, shape=[3,12]} : f32[3,12]
		%2 = transpose %0 {perm=[1,0]} : f32[5,12]
		%3 = concat %1, %2 {axis=0} : f32[8,12]
		output "y" %3
	}`},
	{name: "map_tile_transpose", graph: `graph "g" {
		%0 = input {name="a", dtype=f16, shape=[100,3,64]} : f16[100,3,64]
		%1 = input {name="b", dtype=f32, shape=[64,300]} : f32[64,300]
		%2 = transpose %0 {perm=[2,0,1]} : f16[64,100,3]
		%3 = reshape %2 {shape=[64,300]} : f16[64,300]
		%4 = cast %3 {dtype=f32} : f32[64,300]
		%5 = mul %4, %1 : f32[64,300]
		output "y" %5
	}`, schedule: func(kernel.Schedule) kernel.Schedule {
		return kernel.MapTile{Launch: kernel.Launch{Variant: kernel.VarMapTile, Workgroup: 256, Vec: 4},
			TileM: 64, TileN: 64}
	}},
	{name: "recurrence_delta_rule", graph: `graph "g" {
		symbol T <= 2048
		%0 = input {name="q", dtype=f32, shape=[T,2,64]} : f32[T,2,64]
		%1 = input {name="k", dtype=f32, shape=[T,2,64]} : f32[T,2,64]
		%2 = input {name="v", dtype=f32, shape=[T,4,32]} : f32[T,4,32]
		%3 = input {name="decay", dtype=f32, shape=[T,4,1]} : f32[T,4,1]
		%4 = state {name="state", dtype=f32, shape=[4,32,64]} : f32[4,32,64]
		%5 = neg %1 : f32[T,2,64]
		%6 = delta_rule %0, %1, %2, %3, %4, %5, %1 : f32[T,4,32]
		%7 = delta_rule %0, %1, %2, %3, %4, %5, %1 {of="state"} : f32[4,32,64]
		%8 = silu %6 : f32[T,4,32]
		update %4 = %7
		output "y" %8
	}`},
	{name: "map_rope", graph: `graph "g" {
		symbol T <= 2048
		%0 = input {name="q", dtype=f16, shape=[T,6,48]} : f16[T,6,48]
		%1 = input {name="positions", dtype=i32, shape=[T]} : i32[T]
		%2 = rope %0, %1 {axis=0, base=10000.0} : f16[T,6,48]
		output "y" %2
	}`},
	{name: "map_dropout", graph: `graph "g" {
		%0 = input {name="x", dtype=f32, shape=[64,256]} : f32[64,256]
		%1 = input {name="seed", dtype=i64, shape=[]} : i64[]
		%2 = input {name="offset", dtype=u32, shape=[]} : u32[]
		%3 = random_bernoulli %1, %2 {p=0.9, shape=[64,256]} : bool[64,256]
		%4 = affine %0 {mul=1.1111112} : f32[64,256]
		%5 = affine %0 {mul=0.0} : f32[64,256]
		%6 = where %3, %4, %5 : f32[64,256]
		output "y" %6
	}`},
	{name: "map_normal", graph: `graph "g" {
		%0 = input {name="seed", dtype=u32, shape=[]} : u32[]
		%1 = input {name="offset", dtype=u32, shape=[]} : u32[]
		%2 = random_normal %0, %1 {dtype=f16, shape=[1000]} : f16[1000]
		output "y" %2
	}`},
	{name: "row_softmax_group", graph: `graph "g" {
		symbol T <= 2048
		%0 = input {name="scores", dtype=f32, shape=[T,1024]} : f32[T,1024]
		%1 = softmax %0 {axis=1} : f32[T,1024]
		output "y" %1
	}`},
	{name: "row_rms_norm_residual", graph: `graph "g" {
		symbol T <= 2048
		%0 = input {name="x", dtype=f32, shape=[T,768]} : f32[T,768]
		%1 = input {name="residual", dtype=f32, shape=[T,768]} : f32[T,768]
		%2 = weight {name="weight", dtype=f32, shape=[768]} : f32[768]
		%3 = add %0, %1 : f32[T,768]
		%4 = rms_norm %3, %2 {eps=1e-05} : f32[T,768]
		output "y" %4
		output "h" %3
	}`},
	{name: "row_argmax_shared", graph: `graph "g" {
		%0 = input {name="logits", dtype=f16, shape=[7,32000]} : f16[7,32000]
		%1 = argmax %0 {axis=1} : i32[7]
		output "y" %1
	}`, schedule: withoutSubgroups},
	{name: "row_column_sums", graph: `graph "g" {
		%0 = input {name="x", dtype=f32, shape=[100,65536]} : f32[100,65536]
		%1 = sum %0 {axes=[0]} : f32[65536]
		output "y" %1
	}`},
	{name: "row_windows", graph: `graph "g" {
		%0 = input {name="x", dtype=f32, shape=[16,240,12,80]} : f32[16,240,12,80]
		%1 = weight {name="weight", dtype=f32, shape=[240,1,5,5]} : f32[240,1,5,5]
		%2 = conv %0, %1 {padding_low=[2,2], padding_high=[2,2], groups=240} : f32[16,240,12,80]
		%3 = relu %2 : f32[16,240,12,80]
		output "y" %3
	}`},
	{name: "scan_rows", graph: `graph "g" {
		symbol T <= 2048
		%0 = input {name="x", dtype=f32, shape=[T,4096]} : f32[T,4096]
		%1 = exp %0 : f32[T,4096]
		%2 = cumsum %1 {axis=1} : f32[T,4096]
		%3 = log %2 : f32[T,4096]
		output "y" %3
	}`},
	{name: "scan_shared", graph: `graph "g" {
		symbol N <= 4096
		%0 = input {name="x", dtype=i32, shape=[300,N]} : i32[300,N]
		%1 = cumsum %0 {axis=1, exclusive=true, reverse=true} : i32[300,N]
		output "y" %1
	}`, schedule: withoutSubgroups},
	{name: "scan_long", graph: `graph "g" {
		%0 = input {name="x", dtype=f16, shape=[16,1000000]} : f16[16,1000000]
		%1 = cumsum %0 {axis=1} : f16[16,1000000]
		output "y" %1
	}`},
	{name: "scan_columns", graph: `graph "g" {
		%0 = input {name="x", dtype=f32, shape=[100,1000]} : f32[100,1000]
		%1 = cumsum %0 {axis=0} : f32[100,1000]
		output "y" %1
	}`},
	{name: "sort_rows", graph: `graph "g" {
		symbol N <= 1000
		%0 = input {name="x", dtype=f16, shape=[300,N]} : f16[300,N]
		%1 = sort %0 {axis=1, descending=true} : f16[300,N]
		output "y" %1
	}`},
	{name: "sort_top", graph: `graph "g" {
		%0 = input {name="x", dtype=i32, shape=[16,2048]} : i32[16,2048]
		%1 = top_k_indices %0 {axis=1, k=40} : i32[16,40]
		output "y" %1
	}`},
	{name: "sort_select", graph: `graph "g" {
		%0 = input {name="x", dtype=f32, shape=[16,25,8000]} : f32[16,25,8000]
		%1 = top_k_indices %0 {axis=2, k=40} : i32[16,25,40]
		output "y" %1
	}`},
	{name: "sort_radix", graph: `graph "g" {
		%0 = input {name="x", dtype=bf16, shape=[16,200000]} : bf16[16,200000]
		%1 = argsort %0 {axis=1} : i32[16,200000]
		output "y" %1
	}`},
	{name: "row_layer_norm_lanes", graph: `graph "g" {
		%0 = input {name="x", dtype=bf16, shape=[50,61]} : bf16[50,61]
		%1 = weight {name="gain", dtype=f32, shape=[61]} : f32[61]
		%2 = weight {name="bias", dtype=f32, shape=[61]} : f32[61]
		%3 = cast %0 {dtype=f32} : f32[50,61]
		%4 = layer_norm %3, %1, %2 {eps=1e-05} : f32[50,61]
		%5 = cast %4 {dtype=bf16} : bf16[50,61]
		output "y" %5
	}`},
	{name: "row_layer_norm_shared", graph: `graph "g" {
		%0 = input {name="x", dtype=f32, shape=[50,1200]} : f32[50,1200]
		%1 = layer_norm %0 {eps=1e-05} : f32[50,1200]
		output "y" %1
	}`, schedule: withoutSubgroups},
	{name: "flash_tile_causal", graph: `graph "g" {
		symbol T <= 512
		symbol S <= 4096
		%0 = input {name="q", dtype=f16, shape=[T,32,128]} : f16[T,32,128]
		%1 = input {name="k", dtype=f16, shape=[8,S,128]} : f16[8,S,128]
		%2 = input {name="v", dtype=f16, shape=[8,S,128]} : f16[8,S,128]
		%3 = transpose %0 {perm=[1,0,2]} : f16[32,T,128]
		%4 = attention %3, %1, %2 {causal=true} : f16[32,T,128]
		%5 = transpose %4 {perm=[1,0,2]} : f16[T,32,128]
		%6 = reshape %5 {shape=[T,4096]} : f16[T,4096]
		output "y" %6
	}`, schedule: flashTile},
	{name: "flash_tile_steps", graph: `graph "g" {
		%0 = input {name="q", dtype=f32, shape=[12,1500,64]} : f32[12,1500,64]
		%1 = input {name="k", dtype=f32, shape=[12,1500,64]} : f32[12,1500,64]
		%2 = input {name="v", dtype=f32, shape=[12,1500,64]} : f32[12,1500,64]
		%3 = attention %0, %1, %2 : f32[12,1500,64]
		output "y" %3
	}`, schedule: unsplit},
	{name: "flash_vec_shared_heads", graph: decode, schedule: unsplit},
	{name: "flash_coopmat2_causal", graph: prefill,
		schedule: func(kernel.Schedule) kernel.Schedule { return flashMatrix(kernel.VarFlashMatrix2, 2) }},
	{name: "flash_coopmat2_cached", graph: prefillCached,
		schedule: func(kernel.Schedule) kernel.Schedule { return flashMatrix(kernel.VarFlashMatrix2, 2) }},
	{name: "flash_coopmat_causal", graph: prefill,
		schedule: func(kernel.Schedule) kernel.Schedule { return flashMatrix(kernel.VarFlashMatrix, 1) }},
	{name: "flash_coopmat_shared", graph: prefill, schedule: func(kernel.Schedule) kernel.Schedule {
		s := flashMatrix(kernel.VarFlashMatrix, 1)
		s.SubgroupsN, s.TileM = 2, s.TileM/2
		return s
	}},
	{name: "flash_tile_mask_shared", graph: `graph "g" {
		%0 = input {name="q", dtype=f32, shape=[6,5,10]} : f32[6,5,10]
		%1 = input {name="k", dtype=f32, shape=[2,77,10]} : f32[2,77,10]
		%2 = input {name="v", dtype=f32, shape=[2,77,6]} : f32[2,77,6]
		%3 = input {name="mask", dtype=f32, shape=[5,77]} : f32[5,77]
		%4 = attention %0, %1, %2, %3 : f32[6,5,6]
		output "y" %4
	}`, schedule: func(s kernel.Schedule) kernel.Schedule {
		return kernel.FlashTile{Launch: kernel.Launch{Variant: kernel.VarFlashTile, Workgroup: 48, Vec: 4},
			Tile: kernel.Tile{TileM: 12, TileN: 16, TileK: 8}, Flash: kernel.Flash{Heads: 3}, ThreadM: 2, ThreadN: 2}
	}},
}

// prefill is a causal attention of grouped heads.
const prefill = `graph "g" {
	symbol T <= 2048
	%0 = input {name="q", dtype=f16, shape=[T,32,64]} : f16[T,32,64]
	%1 = input {name="k", dtype=f16, shape=[8,T,64]} : f16[8,T,64]
	%2 = input {name="v", dtype=f16, shape=[8,T,64]} : f16[8,T,64]
	%3 = transpose %0 {perm=[1,0,2]} : f16[32,T,64]
	%4 = attention %3, %1, %2 {causal=true} : f16[32,T,64]
	output "y" %4
}`

// prefillCached is a causal attention over cached keys. Their number is a symbol of its own, so a query might see none.
const prefillCached = `graph "g" {
	symbol S <= 512
	symbol T <= 512
	%0 = input {name="q", dtype=f16, shape=[32,T,64]} : f16[32,T,64]
	%1 = state {name="k", dtype=f16, shape=[8,512,64]} : f16[8,512,64]
	%2 = state {name="v", dtype=f16, shape=[8,512,64]} : f16[8,512,64]
	%3 = slice %1 {starts=[0,0,0], limits=[8,S,64]} : f16[8,S,64]
	%4 = slice %2 {starts=[0,0,0], limits=[8,S,64]} : f16[8,S,64]
	%5 = attention %0, %3, %4 {causal=true} : f16[32,T,64]
	output "y" %5
}`

// decode is an attention of one query, with heads that share keys.
const decode = `graph "g" {
	symbol S <= 8192
	%0 = input {name="q", dtype=f16, shape=[32,1,128]} : f16[32,1,128]
	%1 = input {name="k", dtype=f16, shape=[8,S,128]} : f16[8,S,128]
	%2 = input {name="v", dtype=f16, shape=[8,S,128]} : f16[8,S,128]
	%3 = attention %0, %1, %2 {causal=true} : f16[32,1,128]
	output "y" %3
}`

// flashMatrix runs an attention on cooperative matrices.
func flashMatrix(v kernel.Variant, stages int) kernel.FlashMatrix {
	return kernel.FlashMatrix{Launch: kernel.Launch{Variant: v, Workgroup: 256, Vec: 4, Subgroup: 32},
		TileM: 128, TileN: 32,
		Stages: stages, Fragment: kernel.Fragment{FragM: 16, FragN: 16, FragK: 16}, Flash: kernel.Flash{Heads: 1}}
}

// withoutSubgroups passes everything through shared memory.
func withoutSubgroups(s kernel.Schedule) kernel.Schedule {
	return launched(s, func(l *kernel.Launch) { l.Subgroup = 0 })
}

// flashTile runs an attention without cooperative matrices.
func flashTile(kernel.Schedule) kernel.Schedule {
	return kernel.FlashTile{Launch: kernel.Launch{Variant: kernel.VarFlashTile, Workgroup: 256, Vec: 4, Subgroup: 32},
		Tile: kernel.Tile{TileM: 64, TileN: 64, TileK: 16}, Flash: kernel.Flash{Heads: 1}, ThreadM: 4, ThreadN: 4}
}

// TestGolden pins the shaders of representative maps, row kernels and attentions for an H100.
func TestGolden(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	sources := map[string]string{}
	for _, c := range goldenCases {
		kernels, symbols := lowered(t, c.graph)
		for i, k := range kernels {
			s, _, err := schedule.Select(k, caps)
			check(t, err)
			if c.schedule != nil {
				s = c.schedule(s)
			}
			sh, err := glsl.Emit(k, s, caps, symbols)
			check(t, err)
			name := c.name
			if i > 0 {
				name = fmt.Sprintf("%s_%d", name, i+1)
			}
			checkGolden(t, name, sh.Source)
			sources[name] = sh.Source
		}
	}
	compile(t, sources)
}

// lowered parses a graph in text IR and returns its kernels.
func lowered(t testing.TB, source string) (kernels []*kernel.Kernel, symbols []string) {
	t.Helper()
	g, err := ir.Parse(source)
	check(t, err)
	s, err := passes.Run(g, passes.Options{})
	check(t, err)
	for _, sym := range s.Program.Symbols {
		symbols = append(symbols, sym.Name)
	}
	return s.Kernels, symbols
}
