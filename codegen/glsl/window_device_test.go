package glsl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
	"github.com/vkc-go/vkc/runtime/vk/vktest"
)

// convolutions are those that matrix units run; windows says whether octets of
// their windows come from memory as they are.
var convolutions = []struct {
	name, x, w, attrs, y string
	windows              bool
}{
	{"padded", "2,8,16,16", "24,8,3,3", "padding_low=[1,1], padding_high=[1,1]", "2,24,16,16", true},
	{"unpadded reach", "1,8,9,24", "16,8,2,5", "padding_low=[1,2], padding_high=[0,2]", "1,16,9,24", true},
	{"wide padding", "1,3,5,8", "17,3,1,23", "padding_low=[0,11], padding_high=[0,11]", "1,17,5,8", true},
	{"dilated groups", "2,8,7,16", "10,4,3,3", "padding_low=[2,2], padding_high=[2,2], dilation=[2,2], groups=2", "2,10,7,16", true},
	{"odd width", "1,8,7,13", "16,8,3,3", "padding_low=[1,1], padding_high=[1,1]", "1,16,7,13", false},
	{"strided", "1,8,16,16", "16,8,3,3", "padding_low=[1,1], padding_high=[1,1], stride=[2,2]", "1,16,8,8", false},
}

// TestConvolutionsOnMatrixUnits runs convolutions through fragments.
func TestConvolutionsOnMatrixUnits(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	sched, ok := coopMat(dev.Caps(), ir.F16, 1, 2, 2, 1, 1)
	if !ok {
		t.Skipf("%s has no matrix units for f16", dev.Caps().Name)
	}
	tools, err := spirv.Find(context.Background(), spirv.FindOptions{})
	check(t, err)
	for i, c := range convolutions {
		t.Run(c.name, func(t *testing.T) {
			g, err := ir.Parse(fmt.Sprintf(`graph "g" {
				%%0 = input {name="x", dtype=f16, shape=[%s]} : f16[%[1]s]
				%%1 = input {name="w", dtype=f16, shape=[%s]} : f16[%[2]s]
				%%2 = conv %%0, %%1 {%s} : f16[%s]
				%%3 = relu %%2 : f16[%[4]s]
				output "y" %%3
			}`, c.x, c.w, c.attrs, c.y))
			check(t, err)
			s, text, err := build(g, func(k *kernel.Kernel) (kernel.Schedule, target.Caps, error) { return sched, dev.Caps(), nil })
			check(t, err)
			if len(text) != 1 || strings.Contains(text[0], "window_x(") != c.windows {
				t.Errorf("%d kernels; octets of windows are wanted to be %t:\n%s", len(text), c.windows, joined(text))
			}
			modules, err := assemble(tools, text)
			check(t, err)
			exe, err := dev.Load(context.Background(), s.Program, modules, nil, vk.LoadOptions{})
			check(t, err)
			defer exe.Close()
			ref, err := interp.New(g, interp.Options{})
			check(t, err)
			in, err := graphgen.Values{Seed: 5, Graph: g}.Inputs(nil, i)
			check(t, err)
			want, err := ref.Run(context.Background(), in, nil)
			check(t, err)
			have, err := exe.Run(context.Background(), in, runtime.RunOptions{})
			check(t, err)
			if err := compareOutputs(g, have.Outputs, want); err != nil {
				t.Errorf("%v\n%s", err, joined(text))
			}
		})
	}
}
