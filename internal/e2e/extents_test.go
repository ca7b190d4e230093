package e2e_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// extents has sums and quotients of symbols as extents.
const extents = `graph "extents" {
  symbol H <= 33
  symbol W <= 20
  symbol T <= 9
  symbol S <= 8
  %x = input {name="x", dtype=f32, shape=[1,3,H,W]}
  %w = input {name="w", dtype=f32, shape=[8,3,3,3]}
  %t = input {name="t", dtype=f32, shape=[T,5]}
  %s = input {name="s", dtype=f32, shape=[S,5]}
  %bias = input {name="bias", dtype=f32, shape=[S+T]}
  %c = conv %x, %w {stride=[2,2], padding_low=[1,1], padding_high=[1,1]}
  %p = max_pool %c {kernel=[2,2], ceil_mode=true}
  %every = slice %x {starts=[0,0,0,0], limits=[1,3,H,W], steps=[1,1,1,3]}
  %join = concat %t, %s {axis=0}
  %sums = sum %join {axes=[1]}
  %biased = add %sums, %bias
  %rows = dim_value {dim=[floor((S+T)/2)]}
  output "conv" %c
  output "pool" %p
  output "every" %every
  output "biased" %biased
  output "rows" %rows
}
`

// wholes returns a tensor of small integers. Their sums are exact in any order.
func wholes(t *testing.T, dims ...int) *ir.Data {
	t.Helper()
	n := 1
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(i*i%17 - 8)
	}
	return devtest.TensorOf(t, v, dims...)
}

// TestExtents runs strided windows, steps and a concat over symbols at several
// extents, and compares with the reference in every bit.
func TestExtents(t *testing.T) {
	g, err := ir.Parse(extents)
	if err != nil {
		t.Fatal(err)
	}
	cpu := devtest.OpenNamed(t, "cpu")
	ref, err := cpu.LoadGraph(t.Context(), g, nil)
	if err != nil {
		t.Fatal(err)
	}
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		exe, err := dev.LoadGraph(t.Context(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		if have := fmt.Sprint(exe.Symbols()); have != "[{H 33} {S 8} {T 9} {W 20}]" {
			t.Errorf("the symbols to be given are %s", have)
		}
		for _, at := range [][4]int{{33, 20, 9, 8}, {1, 1, 1, 1}, {2, 7, 0, 3}, {16, 5, 4, 0}, {31, 19, 3, 2}} {
			h, w, rows, more := at[0], at[1], at[2], at[3]
			in := map[string]*ir.Data{"x": wholes(t, 1, 3, h, w), "w": wholes(t, 8, 3, 3, 3), "t": wholes(t, rows, 5),
				"s": wholes(t, more, 5), "bias": wholes(t, rows+more)}
			want, err := ref.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			have, err := exe.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if dims := want.Outputs["pool"].Dims; dims[2] != (h+3)/4 || dims[3] != (w+3)/4 {
				t.Errorf("pooling %dx%d gives %v", h, w, dims)
			}
			for name, d := range want.Outputs {
				got := have.Outputs[name]
				if fmt.Sprint(got.Dims) != fmt.Sprint(d.Dims) || !bytes.Equal(got.Bytes, d.Bytes) {
					t.Errorf("%s at %v is %v, want %v", name, at, got, d)
				}
			}
			in["bias"] = wholes(t, rows+more+1)
			_, err = exe.Run(t.Context(), in)
			devtest.WantError(t, err, fmt.Sprintf(`axis 0 of input "bias" is %d, not %d as S+T is`, rows+more+1, rows+more))
		}
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestExtentsOfOtherNames: a program comes from the cache under other names of symbols, which its sums and
// quotients have too, though they sort otherwise.
func TestExtentsOfOtherNames(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	g, err := ir.Parse(extents)
	if err != nil {
		t.Fatal(err)
	}
	devtest.Compile(t, g, "generic")
	names := strings.NewReplacer("S+T", "A+S", "S <=", "A <=", "[S,", "[A,", "T <=", "S <=", "[T,", "[S,")
	text := names.Replace(extents)
	other, err := ir.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	again := devtest.Compile(t, other, "generic")
	if !again.Stats.CacheHit {
		t.Errorf("under other names: %+v", again.Stats)
	}
	derived := ""
	for _, s := range again.Contents.Program.Symbols {
		if !ir.IsIdent(s.Name) {
			derived += s.Name + " "
		}
	}
	if derived == "" || strings.Contains(derived, "T") {
		t.Errorf("the cached program has extents %s", derived)
	}
}

// TestExtentsWithinKernels: a run is rejected if an extent inside a kernel would be negative, even though no buffer has
// that extent. Here it is the rows of x without the first two, in the kernel that sums them.
func TestExtentsWithinKernels(t *testing.T) {
	g, err := ir.Parse(`graph "rest" {
  symbol T <= 9
  %x = input {name="x", dtype=f32, shape=[T,4]}
  %rest = slice %x {starts=[2,0], limits=[T,4]}
  %relu = relu %rest
  %sum = sum %relu {axes=[0]}
  output "sum" %sum
}
`)
	if err != nil {
		t.Fatal(err)
	}
	devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
		exe, err := dev.LoadGraph(t.Context(), g, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, rows := range []int{0, 1} {
			_, err := exe.Run(t.Context(), vkc.Tensors{"x": wholes(t, rows, 4)})
			if err == nil || !strings.Contains(err.Error(), "T-2") {
				t.Errorf("%d rows: %v, want an error that names T-2", rows, err)
			}
		}
		for _, rows := range []int{2, 9} {
			x := wholes(t, rows, 4)
			v, err := x.Floats()
			if err != nil {
				t.Fatal(err)
			}
			want := make([]float32, 4)
			for i := 8; i < len(v); i++ {
				want[i%4] += float32(max(v[i], 0))
			}
			out, err := exe.Run(t.Context(), vkc.Tensors{"x": x})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out.Outputs["sum"].Bytes, devtest.TensorOf(t, want, 4).Bytes) {
				t.Errorf("%d rows: the sums are not %v", rows, want)
			}
		}
		if err := exe.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestNothingToPick: if an op picks elements from an axis that is empty with a run's symbols, the run is rejected on
// every device with the error of the reference, and the executable remains usable. The maximum of no elements is
// defined, so it is not an error. An empty result is not an error either.
func TestNothingToPick(t *testing.T) {
	for name, op := range map[string]string{
		"argmax":         `argmax %x {axis=1}`,
		"argmin":         `argmin %x {axis=-1}`,
		"gather":         `gather %x, %i {axis=1}`,
		"index_select":   `index_select %x, %v {axis=1}`,
		"embedding":      `embedding %xt, %i`,
		"gather_nd":      `gather_nd %x, %i`,
		"resize_nearest": `resize_nearest %x {size=[4]}`,
		"resize_linear":  `resize_linear %x3 {size=[4]}`,
		"sum":            `sum %x {axes=[1]}`, // this op does not pick elements; the op that does is not an output
		"pad":            `pad %x {low=[0,1], high=[0,0], mode="wrap"}`,
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ir.Parse(`graph "picks" {
  symbol T <= 6
  symbol B <= 3
  %x = input {name="x", dtype=f32, shape=[B,T]}
  %i = input {name="i", dtype=i32, shape=[B,2]}
  %v = input {name="v", dtype=i32, shape=[2]}
  %xt = transpose %x {perm=[1,0]}
  %x3 = reshape %x {shape=[B,1,T]}
  %y = ` + op + `
  %unused = argmin %x {axis=1}
  %m = reduce_max %x {axes=[1]}
  output "y" %y
  output "m" %m
}
`)
			if err != nil {
				t.Fatal(err)
			}
			devtest.OnEach(t, func(t *testing.T, dev *vkc.Device) {
				exe, err := dev.LoadGraph(t.Context(), g, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer exe.Close()
				for _, at := range [][2]int{{2, 5}, {2, 0}, {0, 0}, {2, 1}} {
					batch, rows := at[0], at[1]
					in := map[string]*ir.Data{"x": wholes(t, batch, rows),
						"i": devtest.TensorOf(t, make([]int32, batch*2), batch, 2),
						"v": devtest.TensorOf(t, make([]int32, 2), 2)}
					_, err := exe.Run(t.Context(), in)
					switch {
					case rows == 0 && batch > 0 && name != "sum":
						devtest.WantError(t, err, `input "x": T is 0, so axis`, "is empty, and "+name,
							"want at least 1 element along axis 1")
					case err != nil:
						t.Errorf("%d by %d: %v", batch, rows, err)
					}
				}
			})
		})
	}
}
