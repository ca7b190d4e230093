package vkc_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/spirv"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// rowSums is GLSL that users compile with their own tools: y = scale * sums of rows. The row length is a specialization
// constant. The number of rows may be a symbol, because it is the number of workgroups.
const rowSums = `#version 450
layout(local_size_x = 32) in;
layout(constant_id = 0) const uint columns = 1;
layout(constant_id = 1) const float scale = 1.0;
layout(constant_id = 2) const bool negate = false;
layout(set = 0, binding = 0, std430) readonly buffer X { float x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Y { float y[]; };
shared float part[32];
void main() {
	uint row = gl_WorkGroupID.x, lane = gl_LocalInvocationID.x;
	float sum = 0.0;
	for (uint i = lane; i < columns; i += 32) sum += x[row * columns + i];
	part[lane] = sum;
	barrier();
	if (lane != 0) return;
	for (uint i = 1; i < 32; ++i) sum += part[i];
	y[row] = negate ? -scale * sum : scale * sum;
}
`

// compileGLSL compiles a text as a user would, without vkc's own flags.
func compileGLSL(t *testing.T, source, env string) []byte {
	t.Helper()
	devtest.NeedTools(t)
	tools, err := spirv.Find(context.Background(), spirv.FindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := tools.Compile(context.Background(), []spirv.Shader{{Name: "own", Source: source, TargetEnv: env}},
		spirv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return out[0].SPIRV
}

// rowSumsOp declares the op that a module of rowSums is.
func rowSumsOp(name string, module []byte) ir.CustomOp {
	return ir.CustomOp{
		Name: "testcustom." + name, Args: []ir.ArgInfo{{Name: "x"}},
		Attrs: []ir.AttrInfo{{Name: "scale", Kind: ir.AttrFloat, Default: 1.0},
			{Name: "negate", Kind: ir.AttrBool, Default: false}},
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			return []ir.Type{{DType: c.DType(0), Shape: c.Shape(0)[:1]}}, nil
		},
		Kernel: &ir.CustomKernel{Outputs: []string{"y"}, SPIRV: module,
			Constants: []string{"x_dim1", "scale", "negate"},
			Workgroup: [3]int{32}, SharedBytes: 128, Grid: [3][]ir.GridRule{{{Of: "x", Axis: 0, Tile: 1}}}},
		Reference: func(args []*ir.Data, a ir.Attrs) ([]*ir.Data, error) {
			x, err := args[0].Floats()
			if err != nil {
				return nil, err
			}
			sums, columns := make([]float64, args[0].Dims[0]), args[0].Dims[1]
			for i, v := range x {
				if a.Bool("negate") {
					v = -v
				}
				sums[i/columns] += v * a.Float("scale")
			}
			y, err := ir.FromFloats(ir.F32, sums, args[0].Dims[0])
			return []*ir.Data{y}, err
		},
		Tol: ir.Tolerance{Eps: 256, Sum: true},
	}
}

// TestCustomSPIRV runs an op that is a module, between fused kernels, with two lengths of rows and a symbol.
func TestCustomSPIRV(t *testing.T) {
	if ops["row_sums"] == 0 {
		ops["row_sums"] = ir.MustRegisterCustom(rowSumsOp("row_sums", compileGLSL(t, rowSums, "vulkan1.2")))
	}
	g := devtest.Build(t, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("T", 16), 70)
		sums := frontend.CustomOp(ops["row_sums"], []frontend.Tensor{x.Exp()}, frontend.Attr("scale", 0.25))
		short := frontend.CustomOp(ops["row_sums"], []frontend.Tensor{b.Input("z", ir.F32, 5, 3)},
			frontend.Attr("negate", true))
		b.Output("y", sums.Sqrt())
		b.Output("short", short)
	})
	checkOnDevice(t, g)
	raw, err := g.MarshalJSONText()
	if err != nil {
		t.Fatal(err)
	}
	if read, err := ir.ReadJSON("graph.json", raw); err != nil || read.HashString() != g.HashString() {
		t.Errorf("from graph.json: %v", err)
	}
	p, err := vkc.Compile(context.Background(), g, vkc.CompileOptions{Target: devtest.Profile(t, "lavapipe")})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "own.vkb")
	if err := p.Save(path, nil); err != nil {
		t.Fatal(err)
	}
	opened, err := vkc.OpenBundle(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(opened.Validate(context.Background()), opened.Close()); err != nil {
		t.Error(err)
	}
}

// TestCustomSPIRVRefused: a module that does not match its op is rejected when the op is registered. If the mismatch
// depends on the tensors, it is rejected when a graph is compiled.
func TestCustomSPIRVRefused(t *testing.T) {
	good := compileGLSL(t, rowSums, "vulkan1.2")
	text := func(pairs ...string) []byte {
		return compileGLSL(t, strings.NewReplacer(pairs...).Replace(rowSums), "vulkan1.2")
	}
	for name, tt := range map[string]struct {
		module []byte
		change func(k *ir.CustomKernel)
		want   string
	}{
		"empty":         {[]byte{}, nil, "0 bytes"},
		"cut short":     {good[:len(good)-8], nil, "SPIR-V of custom op testcustom.refused_cut_short: truncated SPIR-V"},
		"version":       {compileGLSL(t, rowSums, "vulkan1.3"), nil, "SPIR-V 1.6"},
		"workgroup":     {good, func(k *ir.CustomKernel) { k.Workgroup[0] = 64 }, "workgroups are [32 1 1], declared are [64 1 1]"},
		"shared":        {good, func(k *ir.CustomKernel) { k.SharedBytes = 64 }, "128 bytes of workgroup memory, declared are 64"},
		"constants":     {good, func(k *ir.CustomKernel) { k.Constants = k.Constants[:2] }, "SpecId 2"},
		"constant name": {good, func(k *ir.CustomKernel) { k.Constants[0] = "z_dim1" }, `field Constants has "z_dim1" at index 0`},
		"both":          {good, func(k *ir.CustomKernel) { k.Body = "y[0] = x[0];" }, "so is Body"},
		"written":       {text("readonly buffer X", "buffer X"), nil, "binding 0 is an argument and may be written"},
		"not written":   {text("writeonly buffer Y", "buffer Y", "binding = 1", "binding = 2"), nil, "bindings 0 to 1"},
		"push":          {text("shared float part[32];", "shared float part[32]; layout(push_constant) uniform P { uint p; };", "= scale *", "= float(p) *", ": scale", ": float(p)"), nil, "PushConstant"},
	} {
		t.Run(name, func(t *testing.T) {
			id := "refused_" + strings.ReplaceAll(name, " ", "_")
			c := rowSumsOp(id, tt.module)
			if tt.change != nil {
				tt.change(c.Kernel)
			}
			op, err := ops[id], error(nil)
			if op == 0 {
				op, err = ir.RegisterCustom(c)
			}
			if err == nil {
				ops[id] = op
				_, err = compiler.Lower(context.Background(), devtest.Build(t, func(b *frontend.Builder) {
					b.Output("y", frontend.CustomOp(op, []frontend.Tensor{b.Input("x", ir.F32, 4, 9)}))
				}), devtest.Profile(t, "lavapipe"), nil)
			}
			devtest.WantError(t, err, tt.want)
		})
	}
	for name, tt := range map[string]struct {
		module []byte
		x      func(b *frontend.Builder) frontend.Tensor
		want   string
	}{
		"symbol": {good, func(b *frontend.Builder) frontend.Tensor { return b.Input("x", ir.F32, 4, b.Sym("T", 9)) },
			"constant x_dim1 of custom op testcustom.sym_spv: the extent of f32[4,T] depends on a symbol"},
		"feature": {text("float sum = 0.0;", "float sum = 0.0; sum += float(double(sum) * 3.0lf);"),
			func(b *frontend.Builder) frontend.Tensor { return b.Input("x", ir.F32, 4, 9) },
			"capability 10 without declaring that it needs float64"},
	} {
		t.Run(name, func(t *testing.T) {
			id := name[:3] + "_spv"
			if ops[id] == 0 {
				ops[id] = ir.MustRegisterCustom(rowSumsOp(id, tt.module))
			}
			g := devtest.Build(t, func(b *frontend.Builder) {
				b.Output("y", frontend.CustomOp(ops[id], []frontend.Tensor{tt.x(b)}))
			})
			_, err := compiler.Lower(context.Background(), g, devtest.Profile(t, "lavapipe"), nil)
			devtest.WantError(t, err, tt.want)
		})
	}
}
