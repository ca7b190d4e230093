package rewrite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/passes"
)

// TestLongFolds tests reductions of few long rows, which are computed in chunks: rows contiguous or interleaved in
// memory, with and without a partial chunk, over several axes, and with a symbolic extent.
func TestLongFolds(t *testing.T) {
	t.Parallel()
	reductions := []string{"sum", "mean", "reduce_max", "reduce_min", "norm1", "norm2", "logsumexp", "variance"}
	places := []string{"argmax", "argmin", "softmax", "log_softmax", "l2_normalize"}
	tests := []struct {
		shape, attrs, dtype string
		ops                 []string
	}{
		{"[2,1300,3]", "{axes=[1]}", "f32", reductions},
		{"[1024,2]", "{axes=[0]}", "f16", []string{"sum", "logsumexp"}},
		{"[2,1300,3]", "{axis=1}", "f32", places},
		{"[1024,2]", "{axis=0}", "bf16", places[:3]},
		{"[1300,3]", "{axes=[0]}", "i8", []string{"sum", "prod", "reduce_max", "reduce_min"}},
		{"[70001]", "", "f32", []string{"variance", "logsumexp", "layer_norm", "rms_norm"}},
		{"[70001]", "{axis=0}", "i32", places[:2]},
		{"[1,70001]", "{axis=1}", "f32", places[:3]},
		{"[70001]", "", "bool", []string{"any", "all"}},
		{"[300,401]", "", "f16", []string{"sum", "logsumexp"}},
		{"[T,40000]", "{axes=[0,1]}", "f32", []string{"mean", "variance"}},
		{"[8,3,9000]", "{axes=[0,2]}", "f32", []string{"sum", "variance"}},
	}
	for _, tt := range tests {
		if testing.Short() && strings.Contains(tt.shape, "70001") {
			continue // the longest rows take seconds each
		}
		for _, op := range tt.ops {
			checkLongFold(t, op, tt.shape, tt.dtype, "%x "+tt.attrs)
		}
	}
}

// checkLongFold compares one op with the reference, and sees that it is made in
// more than one kernel.
func checkLongFold(t *testing.T, op, shape, dtype, args string) {
	t.Run(op+shape+dtype, func(t *testing.T) {
		g := passtest.Parse(t,
			fmt.Sprintf("symbol T <= 3\n%%x = input {name=\"x\", dtype=%s, shape=%s}\n%%y = %s %s\noutput \"y\" %%y",
				dtype, shape, op, args))
		s, c, err := passtest.Check(g, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Kernels) < 2 || c.Ran == 0 {
			t.Errorf("%d runs of %d kernels", c.Ran, len(s.Kernels))
		}
	})
}

// TestSumsOfNothing: sums over no elements, or of zeros, are not computed, whether or not the extents are known.
func TestSumsOfNothing(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		"%a = input {name=\"a\", dtype=f32, shape=[T,0]}\n%b = input {name=\"b\", dtype=f32, shape=[0,5]}\n%y = matmul %a, %b",
		"%a = input {name=\"a\", dtype=u8, shape=[3,2,0]}\n%b = input {name=\"b\", dtype=u8, shape=[0,5]}\n%y = matmul %a, %b",
		"%a = input {name=\"a\", dtype=i32, shape=[3,0]}\n%y = sum %a {axes=[1]}",
		"%c = const {data=u32[4](all 0)}\n%y = sum %c",
	} {
		s, c, err := passtest.Check(passtest.Parse(t, "symbol T <= 3\n"+source+"\noutput \"y\" %y"), 1, 1)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if len(s.Kernels) != 1 || s.Kernels[0].Family != kernel.FamilyMap || c.Ran == 0 {
			t.Errorf("%s: %d runs of %v", source, c.Ran, s.Kernels)
		}
	}
}

// TestFoldsByPrice: a norm of few rows is divided into chunks if that saves time on the device, whether it is a norm of
// rows or of groups of channels.
func TestFoldsByPrice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		graph   string
		cores   int64
		kernels int
	}{
		{"%y = layer_norm %x", 64, 3},
		{"%y = layer_norm %x", 2, 1},
		{"%z = reshape %x {shape=[1,8,4096]}\n%y = group_norm %z {groups=2}", 64, 3},
		{"%z = reshape %x {shape=[1,8,4096]}\n%y = group_norm %z {groups=2}", 2, 1},
		{"%y = sum %x {axes=[1]}", 64, 2},
		{"%c = const {data=f32[2,16384](all 0.25)}\n%z = sum %c {axes=[1]}\n%y = add %z, %z", 64, 1},
	} {
		g := passtest.Parse(t, "%x = input {name=\"x\", dtype=f32, shape=[2,16384]}\n"+tt.graph+"\noutput \"y\" %y")
		s, err := passes.Run(g, passes.Options{Pricer: fewCores(tt.cores), Until: "lower"})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Kernels) != tt.kernels {
			t.Errorf("%s with %d cores: %d kernels, want %d\n%s", tt.graph, tt.cores, len(s.Kernels), tt.kernels,
				s.Text())
		}
	}
}

// fewCores prices work on a device with this many cores, which read slowly, and starts kernels fast.
type fewCores int64

func (n fewCores) Price(r kernel.Rewrite) kernel.Estimate {
	if r.Work == nil {
		return kernel.Estimate{Note: "unknown"}
	}
	return kernel.Estimate{After: kernel.Rates{Bytes: 50, LaunchNs: 100, Cores: int64(n)}.Time(*r.Work)}
}

func (n fewCores) Sizes(*kernel.Kernel) kernel.Sizes { return kernel.Sizes{} }
