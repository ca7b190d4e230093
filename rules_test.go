package vkc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
)

// TestDecisions checks which rewrites of matmuls each device uses.
func TestDecisions(t *testing.T) {
	const half, bf16x3, int8 = ir.PrecisionHalf, ir.PrecisionBF16x3, ir.PrecisionBytes
	const apart, decoded = "store operands as sums of bf16", "store operands, decoded"
	for _, c := range []struct {
		what, device string
		m, n, k      string
		a, b         ir.DType
		precision    string
		want         string // of the product, or of its rest
	}{
		{"whole tiles", "nvidia-h100", "4096", "4096", "4096", ir.F16, ir.F16, "", ""},
		{"a row and a column more", "nvidia-h100", "4097", "4097", "4160", ir.F16, ir.F16, "",
			"cut axis 0 at 4096, then axis 1 at 4096"},
		{"a row more", "nvidia-h100", "4097", "4096", "4096", ir.F16, ir.F16, "", "cut axis 0 at 4096"},
		{"a column more", "nvidia-h100", "4096", "4097", "4096", ir.F16, ir.F16, "", "cut axis 1 at 4096"},
		{"columns of blocks more", "nvidia-h100", "4096", "4097", "4096", ir.F16, ir.Q4_0, half, decoded},
		{"rows and columns more", "nvidia-h100", "5000", "5000", "4096", ir.F16, ir.F16, "",
			"cut axis 0 at 4992, then axis 1 at 4992"},
		{"a row less", "nvidia-h100", "4095", "4096", "4095", ir.F32, ir.F32, half, "store operands"},
		{"rows that may be bytes", "nvidia-h100", "512", "4096", "4096", ir.F32, ir.Q4_0, int8, decoded},
		{"few tiles", "nvidia-h100", "130", "512", "512", ir.F16, ir.F16, "", ""},
		{"rows at run time", "nvidia-h100", "T", "4096", "4096", ir.F16, ir.F16, "", ""},
		{"depth at run time", "nvidia-h100", "4097", "4096", "T", ir.F16, ir.F16, "", ""},
		{"few rows are for matvec", "nvidia-h100", "4", "4097", "4096", ir.F16, ir.F16, "", ""},
		{"not on matrix units", "nvidia-h100", "4097", "4096", "4096", ir.F32, ir.F32, "", ""},
		{"large", "nvidia-h100", "4096", "4096", "4096", ir.F32, ir.F32, bf16x3, apart},
		{"odd", "nvidia-h100", "4095", "4095", "4095", ir.F32, ir.F32, bf16x3, apart},
		{"T rows", "nvidia-h100", "T", "4096", "4096", ir.F32, ir.F32, bf16x3, apart},
		{"small", "nvidia-h100", "256", "256", "256", ir.F32, ir.F32, bf16x3, "keep f32; split the sums in 2"},
		{"shallow", "nvidia-h100", "4096", "4096", "8", ir.F32, ir.F32, bf16x3, "keep f32"},
		{"few rows", "nvidia-h100", "4", "4096", "4096", ir.F32, ir.F32, bf16x3, "keep f32"},
		{"no rates are known", "amd-rdna3", "4096", "4096", "4096", ir.F32, ir.F32, bf16x3, "keep f32"},
		{"no matrix units", "lavapipe", "4096", "4096", "4096", ir.F32, ir.F32, bf16x3, "keep f32"},
		{"too little work", "nvidia-h100", "515", "515", "65", ir.F16, ir.F16, "", ""},
	} {
		attrs := "transpose_b=true"
		if c.precision != "" {
			attrs += fmt.Sprintf(", precision=%q", c.precision)
		}
		from, leaf := "%w", "input"
		if c.b.IsBlock() {
			from, leaf = "%d", "weight"
		}
		text := fmt.Sprintf(`graph "g" {
			symbol T <= 4097
			%%x = input {name="x", dtype=%s, shape=[%s,%s]}
			%%w = %s {name="w", dtype=%s, shape=[%s,%s]}
			%%d = dequantize %%w {dtype=%s}
			%%y = matmul %%x, %s {%s}
			output "y" %%y
		}`, c.a, c.m, c.k, leaf, c.b, c.n, c.k, c.a, from, attrs)
		if !c.b.IsBlock() {
			text = strings.Replace(text, fmt.Sprintf("%%d = dequantize %%w {dtype=%s}", c.a), "", 1)
		}
		if !strings.Contains(text, "[T") && !strings.Contains(text, ",T") {
			text = strings.Replace(text, "symbol T <= 4097", "", 1)
		}
		g, err := ir.Parse(text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.what, err, text)
		}
		caps, err := device.Profile(c.device)
		if err != nil {
			t.Fatal(err)
		}
		low, err := compiler.Lower(context.Background(), g, caps, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		var taken []string
		for _, d := range low.Decisions {
			if d.Taken {
				taken = append(taken, d.What)
			}
		}
		if have := strings.Join(taken, "; "); have != c.want {
			t.Errorf("%s: %q is taken, want %q: %+v", c.what, have, c.want, low.Decisions)
		}
	}
}
