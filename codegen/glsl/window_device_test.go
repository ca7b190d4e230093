package glsl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/runtime/vk"
)

// convolution is a convolution that cooperative matrices run. windows says whether octets of its windows are loaded
// unchanged from memory. stored says whether its operands can be materialized first.
type convolution struct {
	name, x, w, attrs string
	windows, stored   bool
}

var convolutions = []convolution{
	{"padded", "2,8,16,16", "24,8,3,3", "padding_low=[1,1], padding_high=[1,1]", true, true},
	{"unpadded reach", "1,8,9,24", "16,8,2,5", "padding_low=[1,2], padding_high=[0,2]", true, true},
	{"wide padding", "1,3,5,8", "17,3,1,23", "padding_low=[0,11], padding_high=[0,11]", true, true},
	{"dilated groups", "2,8,7,16", "10,4,3,3", "padding_low=[2,2], padding_high=[2,2], dilation=[2,2], groups=2", true,
		false},
	{"odd width", "1,8,7,13", "16,8,3,3", "padding_low=[1,1], padding_high=[1,1]", false, true},
	{"strided", "1,8,16,16", "16,8,3,3", "padding_low=[1,1], padding_high=[1,1], stride=[2,2]", false, true},
	{"strided channels", "2,32,13,9", "40,32,3,3", "padding_low=[1,0], padding_high=[1,1], stride=[2,3]", false, true},
	{"many channels", "2,32,9,13", "70,32,3,3", "padding_low=[1,1], padding_high=[1,1]", false, true},
	{"dilated channels", "2,64,9,8", "40,64,2,3", "padding_low=[3,2], padding_high=[0,2], dilation=[3,2]", true, true},
	{"pointwise", "3,64,5,7", "33,64,1,1", "", false, true},
	{"aligned lines", "2,8,3,60", "40,8,3,3", "padding_low=[1,1], padding_high=[1,1]", false, true},
	{"rows", "2,16,50", "33,16,5", "padding_low=[4], padding_high=[2]", false, true},
}

// graph is the convolution, with ops that fuse into its kernel.
func (c convolution) graph(t *testing.T, dtype ir.DType) *ir.Graph {
	t.Helper()
	attrs := c.attrs
	if dtype == ir.I8 {
		attrs = strings.TrimPrefix(attrs+", padding_value=-9", ", ")
	}
	g, err := ir.Parse(fmt.Sprintf(`graph "g" {
		%%0 = input {name="x", dtype=%[1]s, shape=[%[2]s]}
		%%1 = input {name="w", dtype=%[1]s, shape=[%[3]s]}
		%%2 = conv %%0, %%1 {%[4]s}
		%%3 = relu %%2
		output "y" %%3
	}`, dtype, c.x, c.w, attrs))
	check(t, err)
	return g
}

// implicitGEMMs materializes the operands of every convolution that allows it.
var implicitGEMMs = passes.Options{Pricer: passtest.Choices{Take: passtest.Rules("implicit_gemm")}}

// convolutionCase is a convolution with a schedule for its matmul. The operands are materialized or read directly.
type convolutionCase struct {
	convolution
	storing bool
	s       kernel.Schedule
}

func (c convolutionCase) options() passes.Options {
	if c.storing {
		return implicitGEMMs
	}
	return passes.Options{}
}

// convolutionCases are the cases that a device can run: with materialized operands under all schedules, and directly
// under the first few.
func convolutionCases(t *testing.T, dev *vk.Device, dtype ir.DType, directly int,
	schedules []kernel.Schedule) []convolutionCase {
	t.Helper()
	var cases []convolutionCase
	for _, c := range convolutions {
		for i, s := range schedules {
			for _, storing := range []bool{false, true} {
				of := convolutionCase{c, storing, s}
				if storing && !c.stored || !storing && i >= directly {
					continue
				}
				_, _, err := buildConvolution(dev, c.graph(t, dtype), of.options(), s)
				if errors.Is(err, errDeviceLacks) {
					continue
				}
				check(t, err)
				cases = append(cases, of)
			}
		}
	}
	// Drivers on the CPU take a second to compile one.
	return pairs.Pick(cases, func(c convolutionCase) pairs.Of {
		has := func(attr string) bool { return strings.Contains(c.attrs, attr) }
		return pairs.Of{Name: c.name, Properties: []any{c.s, c.storing, c.windows, has("padding"), has("stride"),
			has("dilation"), has("groups"), strings.Count(c.x, ",")}, Cost: unrolledBy(c.s)}
	})
}

// TestConvolutionsOnMatrixUnits runs convolutions on fragments, directly and with materialized operands, and on
// workgroup matrices: a covering set of their cases.
func TestConvolutionsOnMatrixUnits(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	fragments, ok := coopMat(dev.Caps(), ir.F16, 1, 2, 2, 1, 1)
	if !ok {
		t.Skipf("%s has no matrix units for f16", dev.Caps().Name)
	}
	runConvolutions(t, dev, ir.F16, convolutionCases(t, dev, ir.F16, 1, []kernel.Schedule{fragments,
		coopMat2(128, 32, 64, 16), coopMat2(256, 64, 128, 32), unrolled(3, coopMat2(256, 128, 64, 32)),
		unrolled(1, coopMat2(128, 64, 64, 16))}))
}

// TestConvolutionsOfBytes runs int8 convolutions, which have exact sums, in tiles and on cooperative matrices, directly
// and with materialized operands: a covering set of their cases.
func TestConvolutionsOfBytes(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	schedules := []kernel.Schedule{kernel.MatTile{Launch: kernel.Launch{Variant: kernel.VarMatTile, Workgroup: 64,
		Vec: 4}, Tile: kernel.Tile{TileM: 16, TileN: 16, TileK: 32}, ThreadM: 2, ThreadN: 2}}
	if fragments, ok := coopMat(dev.Caps(), ir.I8, 1, 2, 2, 1, 1); ok {
		schedules = append(schedules, fragments, coopMat2(128, 32, 64, 32), coopMat2(256, 64, 128, 128))
	}
	runConvolutions(t, dev, ir.I8, convolutionCases(t, dev, ir.I8, len(schedules), schedules))
}

// runConvolutions runs cases. It compiles the shaders of all cases first, with few processes.
func runConvolutions(t *testing.T, dev *vk.Device, dtype ir.DType, cases []convolutionCase) {
	t.Helper()
	var all []string
	for _, c := range cases {
		_, text, err := buildConvolution(dev, c.graph(t, dtype), c.options(), c.s)
		check(t, err)
		all = append(all, text...)
	}
	assembleTogether(toolchain(t), all)
	for _, c := range cases {
		c.run(t, dev, dtype)
	}
}

func (c convolutionCase) run(t *testing.T, dev *vk.Device, dtype ir.DType) {
	t.Helper()
	name, kernels := fmt.Sprintf("%s %s", c.name, c.s), 1
	if c.storing {
		name, kernels = fmt.Sprintf("%s stored %s", c.name, c.s), 3
	}
	t.Run(name, func(t *testing.T) {
		text := runConvolution(t, dev, c.graph(t, dtype), c.options(), c.s)
		if len(text) != kernels {
			t.Errorf("%d kernels, want %d:\n%s", len(text), kernels, joined(text))
		}
		if !c.storing && dtype == ir.F16 && strings.Contains(text[0], "window_x(") != c.windows {
			t.Errorf("octets of windows are wanted to be %t:\n%s", c.windows, joined(text))
		}
	})
}

// errDeviceLacks is wrapped by errors about features that the device lacks for a schedule.
var errDeviceLacks = errors.New("this device cannot run the schedule")

// buildConvolution compiles a convolution with a schedule for its matmul.
func buildConvolution(dev *vk.Device, g *ir.Graph, opt passes.Options, sched kernel.Schedule) (*passes.State, []string,
	error) {
	return buildWith(g, opt, func(k *kernel.Kernel) (kernel.Schedule, device.Caps, error) {
		if k.Family != kernel.FamilyMatMul {
			s, _, err := schedule.Select(k, dev.Caps())
			return s, dev.Caps(), err
		}
		if err := fits(k, sched, dev.Caps()); err != nil {
			return sched, dev.Caps(), fmt.Errorf("%w: %w", errDeviceLacks, err)
		}
		return sched, dev.Caps(), nil
	})
}

// runConvolution compares a convolution with the reference, with a schedule for its matmul, and returns its shaders.
func runConvolution(t *testing.T, dev *vk.Device, g *ir.Graph, opt passes.Options, sched kernel.Schedule) []string {
	t.Helper()
	tools := toolchain(t)
	s, text, err := buildConvolution(dev, g, opt, sched)
	if errors.Is(err, errDeviceLacks) {
		t.Skip(err)
	}
	check(t, err)
	modules, err := assemble(tools, text)
	check(t, err)
	exe, err := dev.Load(context.Background(), s.Program, modules, nil, vk.LoadOptions{})
	check(t, err)
	defer exe.Close()
	ref, err := interp.New(g, interp.Options{})
	check(t, err)
	for seed := range uint64(2) {
		in, err := graphgen.Values{Seed: seed, Graph: g}.Inputs(nil, 0)
		check(t, err)
		want, err := ref.Run(context.Background(), in, nil)
		check(t, err)
		have, err := exe.Run(context.Background(), in)
		check(t, err)
		if err := compareOutputs(g, have.Outputs, want); err != nil {
			t.Errorf("%v\n%s", err, joined(text))
		}
	}
	return text
}

// TestChainedConvolutions runs a convolution that stores its result as the operand of the next one.
func TestChainedConvolutions(t *testing.T) {
	dev := vktest.Device(t, vk.DeviceOptions{})
	fragments, ok := coopMat(dev.Caps(), ir.F16, 1, 2, 2, 1, 1)
	if !ok {
		t.Skipf("%s has no matrix units for f16", dev.Caps().Name)
	}
	g, err := ir.Parse(`graph "g" {
		%x = input {name="x", dtype=f16, shape=[2,32,9,13]}
		%u = input {name="u", dtype=f16, shape=[64,32,3,3]}
		%v = input {name="v", dtype=f16, shape=[40,64,3,3]}
		%b = input {name="b", dtype=f16, shape=[64,1,1]}
		%1 = conv %x, %u {padding_low=[1,1], padding_high=[1,1]}
		%2 = add %1, %b
		%3 = relu %2
		%4 = conv %3, %v {padding_low=[1,1], padding_high=[1,1]}
		output "y" %4
	}`)
	check(t, err)
	for _, sched := range []kernel.Schedule{fragments, coopMat2(128, 32, 64, 32), coopMat2(256, 128, 64, 32),
		unrolled(9, coopMat2(256, 64, 64, 32))} {
		t.Run(sched.String(), func(t *testing.T) {
			if text := runConvolution(t, dev, g, implicitGEMMs, sched); len(text) != 6 {
				t.Errorf("%d kernels, want 6:\n%s", len(text), joined(text))
			}
		})
	}
}
