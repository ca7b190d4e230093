package vkc_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestTooLarge: a tensor with coordinates out of the range of kernels is rejected before compilation, with the op, the
// tensor, its size and the limit. A tensor just below the limit compiles, with 64-bit positions if necessary. No device
// is needed.
func TestTooLarge(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	without := func(feature string) device.Caps {
		caps, err := devtest.Profile(t, "nvidia-h100").Without(feature)
		if err != nil {
			t.Fatal(err)
		}
		return caps
	}
	cpu, h100 := devtest.Profile(t, "lavapipe"), devtest.Profile(t, "nvidia-h100")
	noInt64, noBytes := without("int64"), without("storage8")
	cpu.MaxStorageRange = math.MaxUint32 // the most that Vulkan has: the rest is reached by address
	tests := []struct {
		name  string
		caps  device.Caps
		graph string
		want  string // a part of the error, "" for none
	}{
		{"iota", cpu, `%i = iota {dtype=i64, shape=[2147483649], axis=0}
			%y = reduce_max %i {axes=[0]}`, "2147483648, more than the 2147483647"},
		{"iota over two axes", cpu, `%y = iota {dtype=i32, shape=[65536,65536], axis=1}`, ""},
		{"index_select", cpu, `%x = weight {name="table", dtype=u8, shape=[3000000000,1]}
			%i = input {name="i", dtype=i64, shape=[4]}
			%y = index_select %x, %i {axis=0}`, `"table"`},
		{"gather of many columns", cpu, `%x = weight {name="table", dtype=u8, shape=[100000,50000]}
			%i = input {name="i", dtype=i32, shape=[4,50000]}
			%y = gather %x, %i {axis=0}`, ""},
		{"a symbol at its bound", cpu, `symbol T <= 70000
			%x = input {name="x", dtype=u8, shape=[T,70000]}
			%y = flip %x {axes=[1]}`, ""},
		{"number of a dim", cpu, `symbol T <= 2000000000
			%x = input {name="x", dtype=u8, shape=[T]}
			%d = dim_value {dim=[2*T]}
			output "d" %d
			%y = reduce_max %x {axes=[0]}`, "4000000000, more than the"},
		{"flip", cpu, `%x = input {name="x", dtype=u8, shape=[2200000000]}
			%f = flip %x {axes=[0]}
			%y = reduce_max %f {axes=[0]}`, ""},
		{"concat", cpu, `%x = input {name="x", dtype=u8, shape=[2000000000]}
			%y = concat %x, %x {axis=0}`, "more than the"},
		{"row", cpu, `%x = input {name="x", dtype=u8, shape=[2,2200000000]}
			%y = reduce_max %x {axes=[1]}`, ""},
		{"a table whose bytes fit", cpu, `%x = weight {name="table", dtype=u8, shape=[40000,100000]}
			%i = input {name="i", dtype=i64, shape=[4]}
			%y = index_select %x, %i {axis=0}`, ""},
		{"map", h100, `%x = input {name="x", dtype=u8, shape=[70000,65536]}
			%r = input {name="r", dtype=u8, shape=[65536]}
			%y = add %x, %r`, ""},
		{"transposed", h100, `%x = input {name="x", dtype=f16, shape=[70000,65536]}
			%y = transpose %x {perm=[1,0]}`, ""},
		{"symbol", h100, `symbol N <= 70000
			%x = input {name="x", dtype=f16, shape=[N,65536]}
			%y = pad %x {low=[1,0], high=[0,0]}`, ""},
		{"rows", h100, `%x = input {name="x", dtype=f16, shape=[70000,65536]}
			%y = softmax %x`, ""},
		{"columns", h100, `%x = input {name="x", dtype=f16, shape=[70000,65536]}
			%y = cumsum %x {axis=0}`, ""},
		{"all", h100, `%x = input {name="x", dtype=u8, shape=[70000,65536]}
			%f = cast %x {dtype=f32}
			%y = sum %f`, ""},
		{"product", h100, `%x = input {name="x", dtype=f16, shape=[128,65536]}
			%w = input {name="w", dtype=f16, shape=[65536,70000]}
			%y = matmul %x, %w`, ""},
		{"product of blocks", h100, `%x = input {name="x", dtype=f32, shape=[128,65536]}
			%w = state {name="w", dtype=q4_0, shape=[70000,65536]}
			%y = matmul %x, %w {transpose_b=true}`, ""},
		{"an axis", h100, `%x = input {name="x", dtype=u8, shape=[4294967296]}
			%y = add %x, %x`, "elements along an axis: 4294967296, more than the 2147483647"},
		{"random", h100, `%seed = input {name="seed", dtype=u32, shape=[]}
			%at = input {name="at", dtype=u32, shape=[]}
			%y = random_uniform %seed, %at {dtype=f16, shape=[70000,65536]}`, "elements of a random stream"},
		{"sorted by digits", h100, `%x = input {name="x", dtype=f16, shape=[70000,65536]}
			%y = sort %x`, `maxStorageRange 4294967295: buffer "keys"`},
		{"units of blocks", h100, `%x = state {name="x", dtype=q8_0, shape=[140000,65536]}
			%f = dequantize %x {dtype=f16}
			%y = sum %f {axes=[1]}`, "units of 2 bytes"},
		{"no int64", noInt64, `%x = input {name="x", dtype=f16, shape=[70000,65536]}
			%y = sum %x {axes=[0]}`, "feature int64: positions reach 4587519999"},
		{"bytes in words", noBytes, `%x = input {name="x", dtype=u8, shape=[70000,65536]}
			%y = sum %x {axes=[0]}`, "feature storage8: buffer"},
	}
	graphs, compiled := make([]*ir.Graph, len(tests)), []*ir.Graph(nil)
	for i, tt := range tests {
		g, err := ir.Parse("graph \"large\" {\n" + tt.graph + "\noutput \"y\" %y\n}")
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		graphs[i] = g
		if tt.want == "" && tt.caps.Name == cpu.Name {
			compiled = append(compiled, g)
		}
	}
	devtest.CompileShaders(t, cpu, compiled...)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := graphs[i]
			_, err := compiler.Lower(t.Context(), g, tt.caps, nil)
			if err == nil && tt.want == "" {
				_, err = vkc.Compile(t.Context(), g, vkc.CompileOptions{Target: tt.caps})
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestFarRows: SPIR-V treats an index as signed, and drivers may compute byte offsets in 32 bits. So kernels access a
// buffer by address row by row, if it has more bytes than such a number can count.
func TestFarRows(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	caps := devtest.Profile(t, "lavapipe")
	caps.MaxStorageRange = 128 << 20
	for _, tt := range []struct {
		dtype  string
		rows   int
		folded bool
	}{{"u8", 20000, false}, {"u8", 40000, true}, {"f32", 5000, false}, {"f32", 10000, true}} {
		g, err := ir.Parse(fmt.Sprintf(`graph "large" {
			%%x = weight {name="table", dtype=%s, shape=[%d,100000]}
			%%i = input {name="i", dtype=i64, shape=[4]}
			%%y = index_select %%x, %%i {axis=0}
			output "o" %%y
		}`, tt.dtype, tt.rows))
		if err != nil {
			t.Fatal(err)
		}
		p, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: caps})
		if err != nil {
			t.Fatal(err)
		}
		if text := p.Contents.GLSL[0]; strings.Contains(text, "_row((i) >> 16)).data[(i) & 65535u]") != tt.folded {
			t.Errorf("%d rows of %s:\n%s", tt.rows, tt.dtype, text)
		}
	}
}
