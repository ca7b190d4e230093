package e2e_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/passes/layout"
	"github.com/vkc-go/vkc/quant"
	"github.com/vkc-go/vkc/runtime"
)

// blockGraph has, for each format, a weight used both as a table of rows and in a matmul with one row, and two more
// weights used in only one of these ways.
func blockGraph(t *testing.T, formats []ir.DType) (*ir.Graph, graphgen.Values) {
	t.Helper()
	g, err := frontend.Build("blocks", func(b *frontend.Builder) {
		ids := b.Input("ids", ir.I32, 3)
		for _, f := range formats {
			w := b.Weight("w "+f.String(), f, 12, 3*f.BlockElems())
			x := b.Input("x "+f.String(), ir.F32, 1, 3*f.BlockElems())
			b.Output("product "+f.String(), x.MatMulT(w))
			b.Output("rows "+f.String(), w.Embedding(ids, ir.F32))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, graphgen.Values{Seed: 3, Graph: g}
}

// planedCaps returns a device that wants the planes layout, by giving caps the vendor of such devices. It also returns
// the block formats.
func planedCaps(t *testing.T, caps device.Caps) (device.Caps, []ir.DType) {
	t.Helper()
	caps.VendorID, caps.Type = device.VendorNVIDIA, device.DeviceDiscrete
	var formats []ir.DType
	for _, f := range ir.DTypes() {
		if f.IsBlock() {
			formats = append(formats, f)
		}
	}
	return caps, formats
}

// outputsOf runs the reference.
func outputsOf(t *testing.T, g *ir.Graph, values graphgen.Values, in map[string]*ir.Data) map[string]*ir.Data {
	t.Helper()
	ref, err := interp.New(g, interp.Options{Weights: values})
	if err != nil {
		t.Fatal(err)
	}
	want, err := ref.Run(context.Background(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func inputsOf(t *testing.T, values graphgen.Values) map[string]*ir.Data {
	t.Helper()
	in, err := values.Inputs(nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func compareOutputs(t *testing.T, g *ir.Graph, have, want map[string]*ir.Data) {
	t.Helper()
	for _, o := range g.Outputs() {
		if err := interp.Compare(have[o.Name], want[o.Name], interp.ToleranceOf(g, o.Node)).Err(); err != nil {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
}

// TestPlanes converts weights to the planes layout and evaluates the kernels on the converted memory.
func TestPlanes(t *testing.T) {
	caps, formats := planedCaps(t, devtest.Profile(t, "nvidia-h100"))
	g, values := blockGraph(t, formats)
	low, err := compiler.Lower(context.Background(), g, caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	planes := map[ir.DType]bool{}
	for _, b := range low.Program.Buffers {
		if b.Layout == kernel.LayoutPlanes {
			planes[b.DType] = true
		}
		want, err := b.DType.BytesFor(b.Shape.MaxElems())
		if err != nil {
			t.Fatal(err)
		}
		if limit := want + 16*int64(1+len(kernel.PlanesOf(b.DType))); b.Bytes < want || b.Bytes > limit {
			t.Errorf("%s has %d bytes, want %d to %d", b.Name, b.Bytes, want, limit)
		}
	}
	if !planes[ir.Q8_0] {
		t.Errorf("weights in planes: %v", planes)
	}
	var plan bytes.Buffer
	layout.Print(&plan, low.Program)
	if !strings.Contains(plan.String(), "weight w q8_0 : q8_0[12,96], 1232 bytes in planes") {
		t.Errorf("the plan does not show the layout:\n%s", plan.String())
	}
	m, err := keval.New(low.Program, low.Kernels, keval.Options{Weights: values, Decode: quant.Dequantize})
	if err != nil {
		t.Fatal(err)
	}
	in := inputsOf(t, values)
	have, err := m.Run(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	compareOutputs(t, g, have, outputsOf(t, g, values, in))
}

// TestPlanesOnDevice runs the same on the device of this machine as if it were
// one that wants planes: weights are taken apart on their way there.
func TestPlanesOnDevice(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := context.Background()
	dev := devtest.OpenDevice(t)
	caps, formats := planedCaps(t, dev.Caps())
	g, values := blockGraph(t, formats)
	p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(p.Contents.Program.Buffers, func(b kernel.Buffer) bool {
		return b.Layout == kernel.LayoutPlanes
	}) {
		t.Fatal("no weight is in planes")
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: values})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	in := inputsOf(t, values)
	res, err := exe.Run(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	want := outputsOf(t, g, values, in)
	compareOutputs(t, g, res.Outputs, want)

	held := dev.Memory()[runtime.OwnWeights]
	again, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: values})
	if err != nil {
		t.Fatal(err)
	}
	if now := dev.Memory()[runtime.OwnWeights]; now != held {
		t.Errorf("equal weights in planes take %d bytes more", now-held)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLayoutChoice: a weight keeps its layout in files if no matmul reads it, or if a user's kernel reads it.
func TestLayoutChoice(t *testing.T) {
	h100 := devtest.Profile(t, "nvidia-h100")
	g, err := frontend.Build("many rows", func(b *frontend.Builder) {
		w := b.Weight("w", ir.Q8_0, 64, 64)
		b.Output("y", b.Input("x", ir.F32, 64, 64).MatMulT(w))
		b.Output("rows", w.Embedding(b.Input("ids", ir.I32, 3), ir.F32))
	})
	if err != nil {
		t.Fatal(err)
	}
	rows, err := frontend.Build("rows", func(b *frontend.Builder) {
		b.Output("rows", b.Weight("w", ir.Q8_0, 64, 64).Embedding(b.Input("ids", ir.I32, 3), ir.F32))
	})
	if err != nil {
		t.Fatal(err)
	}
	one, _ := blockGraph(t, []ir.DType{ir.Q8_0})
	for _, c := range []struct {
		name string
		g    *ir.Graph
		caps device.Caps
		want kernel.Layout
	}{
		{"many rows", g, h100, kernel.LayoutPlanes},
		{"no product", rows, h100, kernel.LayoutBlocks},
		{"few rows", one, h100, kernel.LayoutPlanes},
		{"another device", one, devtest.Profile(t, "generic"), kernel.LayoutPlanes},
	} {
		low, err := compiler.Lower(context.Background(), c.g, c.caps, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range low.Program.Buffers {
			if b.DType == ir.Q8_0 && b.Layout != c.want {
				t.Errorf("%s: %s in layout %q, want %q", c.name, b.Name, b.Layout, c.want)
			}
		}
	}
}

// byteGraph multiplies the same row by two weights of each format, as bytes if
// the precision says so.
func byteGraph(t *testing.T, p frontend.Precision, formats []ir.DType) (*ir.Graph, graphgen.Values) {
	t.Helper()
	g, err := frontend.Build("bytes", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 2, 768).Mul(b.Input("factor", ir.F32, 768))
		for _, f := range formats {
			up, gate := b.Weight("up "+f.String(), f, 12, 768), b.Weight("gate "+f.String(), f, 12, 768)
			b.Output("product "+f.String(), x.MatMulTIn(p, up).Mul(x.MatMulTIn(p, gate).Silu()))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, graphgen.Values{Seed: 5, Graph: g}
}

// TestByteRows: rows are converted to int8 once for all matmuls that share them, and the kernels multiply int8. The
// error must be within the tolerance of this precision, but above the tolerance of full precision.
func TestByteRows(t *testing.T) {
	caps, formats := planedCaps(t, devtest.Profile(t, "nvidia-h100"))
	formats = slices.DeleteFunc(formats, func(f ir.DType) bool {
		return !schedule.WantsBytes(f, ir.D(2), ir.D(64), caps)
	})
	if !slices.Contains(formats, ir.Q4_0) ||
		schedule.WantsBytes(ir.Q4_0, ir.D(2), ir.D(64), devtest.Profile(t, "generic")) {
		t.Fatalf("formats that want bytes: %v", formats)
	}
	g, values := byteGraph(t, frontend.ByteRows, formats)
	low, err := compiler.Lower(context.Background(), g, caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(low.Kernels); n != 2+len(formats) {
		t.Errorf("%d kernels for %d formats, want one before them, one that makes bytes and one for each format", n,
			len(formats))
	}
	inIntegers := 0
	for _, text := range low.GLSL {
		if strings.Contains(text, "dotPacked4x8EXT") {
			inIntegers++
		}
	}
	if inIntegers != len(formats) {
		t.Errorf("%d kernels multiply in integers, want %d", inIntegers, len(formats))
	}
	m, err := keval.New(low.Program, low.Kernels, keval.Options{Weights: values, Decode: quant.Dequantize})
	if err != nil {
		t.Fatal(err)
	}
	in := inputsOf(t, values)
	have, err := m.Run(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := outputsOf(t, g, values, in)
	compareOutputs(t, g, have, want)
	full, _ := byteGraph(t, frontend.FullPrecision, formats)
	for _, o := range full.Outputs() {
		if interp.Compare(have[o.Name], want[o.Name], interp.ToleranceOf(full, o.Node)).Err() == nil {
			t.Errorf("%s is as exact as full precision: were there bytes?", o.Name)
		}
	}
}

// storedRowsGraph multiplies rows that are stored in a block format by weights of some formats, in full precision.
func storedRowsGraph(t *testing.T, rows ir.DType, formats []ir.DType) (*ir.Graph, graphgen.Values) {
	t.Helper()
	g, err := frontend.Build("stored rows", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 3, 768).Quantize(rows)
		for _, f := range formats {
			b.Output("product "+f.String(), x.MatMulT(b.Weight("w "+f.String(), f, 12, 768)))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, graphgen.Values{Seed: 6, Graph: g}
}

// TestStoredRows: rows that are stored as bytes with scales meet quantized weights in integers without being told to,
// since that rounds nothing: results are as exact as full precision asks for.
func TestStoredRows(t *testing.T) {
	caps, formats := planedCaps(t, devtest.Profile(t, "nvidia-h100"))
	formats = slices.DeleteFunc(formats, func(f ir.DType) bool {
		return !schedule.WantsBytes(f, ir.D(3), ir.D(12), caps)
	})
	for _, rows := range []ir.DType{ir.Q8_0, ir.Q4_0} {
		g, values := storedRowsGraph(t, rows, formats)
		low, err := compiler.Lower(context.Background(), g, caps, nil)
		if err != nil {
			t.Fatal(err)
		}
		takenApart, inIntegers := 0, 0
		for i, text := range low.GLSL {
			if strings.Contains(text, "dotPacked4x8EXT") {
				inIntegers++
			}
			if low.Kernels[i].Custom != nil {
				takenApart++
			}
		}
		if takenApart != 1 || inIntegers != len(formats) {
			t.Errorf("%s: %d kernels take rows apart and %d multiply in integers, want 1 and %d", rows, takenApart,
				inIntegers, len(formats))
		}
		m, err := keval.New(low.Program, low.Kernels, keval.Options{Weights: values, Decode: quant.Dequantize,
			Encode: func(dst []byte, t ir.DType, src []float32) error { return quant.Quantize(dst, t, src, nil) }})
		if err != nil {
			t.Fatal(err)
		}
		in := inputsOf(t, values)
		have, err := m.Run(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		compareOutputs(t, g, have, outputsOf(t, g, values, in))

		caps := caps
		caps.Features.Storage16 = false // which taking blocks apart needs
		if low, err = compiler.Lower(context.Background(), g, caps, nil); err != nil {
			t.Fatal(err)
		}
		for _, k := range low.Kernels {
			if k.Custom != nil {
				t.Errorf("%s: without 16-bit storage rows are taken apart", rows)
			}
		}
	}
}

// TestStoredRowsOnDevice runs the same.
func TestStoredRowsOnDevice(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx, dev := t.Context(), devtest.OpenDevice(t)
	caps, formats := planedCaps(t, dev.Caps())
	formats = slices.DeleteFunc(formats, func(f ir.DType) bool { // a few of one kind each
		return !slices.Contains([]ir.DType{ir.Q8_0, ir.Q4_0, ir.Q4_K, ir.IQ4_NL}, f) ||
			!schedule.WantsBytes(f, ir.D(3), ir.D(12), caps)
	})
	for _, rows := range []ir.DType{ir.Q8_0, ir.Q4_0} {
		g, values := storedRowsGraph(t, rows, formats)
		p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
		if err != nil {
			t.Fatal(err)
		}
		exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: values})
		if err != nil {
			t.Fatal(err)
		}
		in := inputsOf(t, values)
		res, err := exe.Run(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		compareOutputs(t, g, res.Outputs, outputsOf(t, g, values, in))
		exe.Close()
	}
}

// TestByteRowsOnDevice runs the graph of TestByteRows on the device, and with full precision for comparison.
func TestByteRowsOnDevice(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx := context.Background()
	dev := devtest.OpenDevice(t)
	caps, formats := planedCaps(t, dev.Caps())
	formats = slices.DeleteFunc(formats, func(f ir.DType) bool {
		return !schedule.WantsBytes(f, ir.D(2), ir.D(64), caps)
	})
	g, values := byteGraph(t, frontend.ByteRows, formats)
	p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: values})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	in := inputsOf(t, values)
	res, err := exe.Run(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	compareOutputs(t, g, res.Outputs, outputsOf(t, g, values, in))
}
