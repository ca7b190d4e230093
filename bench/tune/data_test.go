package tune

import (
	"bytes"
	"context"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestPlaces: indices for a kernel's results are generated distinct and in range, as in a real run: rows at their
// texts' positions, in their pages, and at positions computed by another kernel.
func TestPlaces(t *testing.T) {
	const heads, width, rows = 2, 32, 6
	for name, place := range map[string]func(b *frontend.Builder, positions frontend.Tensor) frontend.Tensor{
		"texts": func(b *frontend.Builder, positions frontend.Tensor) frontend.Tensor {
			return b.Input("texts", ir.I32, rows).MulScalar(16).Add(positions)
		},
		"a ring of each text": func(b *frontend.Builder, positions frontend.Tensor) frontend.Tensor {
			return b.Input("texts", ir.I32, rows).MulScalar(4).Add(positions.Mod(positions.Lit(4)))
		},
		"pages of each text": func(b *frontend.Builder, positions frontend.Tensor) frontend.Tensor {
			pages := b.Input("pages", ir.I32, rows, 9).Gather(1, positions.Div(positions.Lit(16)).Reshape(rows, 1))
			return pages.Reshape(rows).MulScalar(16).Add(positions.Mod(positions.Lit(16)))
		},
		"stored": func(b *frontend.Builder, positions frontend.Tensor) frontend.Tensor {
			return positions.Argsort(0)
		},
	} {
		for _, dtype := range []ir.DType{ir.F32, ir.Q8_0} {
			g, err := frontend.Build("places", func(b *frontend.Builder) {
				s, x := b.State("s", dtype, heads, 128, width), b.Input("x", ir.F32, heads, rows, width)
				at := place(b, b.Input("positions", ir.I32, rows)).Reshape(1, rows, 1)
				if dtype.IsBlock() {
					at = b.Iota(ir.I32, 0, heads, rows, 1).Concat(2, at.Broadcast(heads, rows, 1))
					b.Update(s, s.ScatterNDDistinct(at, x.Quantize(dtype)))
					return
				}
				b.Update(s, s.ScatterDistinct(1, at.Broadcast(heads, rows, width), x.AddScalar(2)))
			})
			if err != nil {
				t.Fatal(err)
			}
			list, err := Kernels(context.Background(), g, caps(t, "lavapipe"), nil)
			if err != nil {
				t.Fatal(err)
			}
			writes := 0
			for _, k := range list {
				if len(scatterIndices(k.Kernel)) == 0 {
					continue
				}
				writes++
				if n := stored(t, k); n != heads*rows*width {
					t.Errorf("%s, %s: %d elements of %d have a place", name, dtype, n, heads*rows*width)
				}
			}
			if writes != 1 {
				t.Errorf("%s, %s: %d kernels write where integers say, want 1", name, dtype, writes)
			}
		}
	}
}

// stored runs a kernel on the host on its data, and returns how many elements it has changed of a state of zeros.
func stored(t *testing.T, k *Kernel) (n int) {
	t.Helper()
	list, err := k.operands(k.Symbols)
	if err != nil {
		t.Fatal(err)
	}
	state := ""
	m, in, err := k.onHost(list, func(p *kernel.Program, b *kernel.Buffer, port kernel.Port) {
		if b.Kind != kernel.BufFault {
			b.Kind, state = kernel.BufState, b.Name
			p.States = append(p.States, port)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Run(in, k.Symbols); err != nil {
		t.Fatal(err)
	}
	d, err := m.State(state)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(d.Bytes); at += d.DType.BlockBytes() {
		for _, b := range d.Bytes[at:][:d.DType.BlockBytes()] {
			if b != 0 {
				n += d.DType.BlockElems()
				break
			}
		}
	}
	return n
}

// TestPlanes: a weight in planes is uploaded in planes, so that its scales are numbers of a weight.
func TestPlanes(t *testing.T) {
	g, err := frontend.Build("planes", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 1, 2048).MatMulT(b.Weight("w", ir.Q4_0, 2048, 2048)))
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := Kernels(context.Background(), g, caps(t, "nvidia-h200"), nil)
	if err != nil {
		t.Fatal(err)
	}
	planes := 0
	for _, k := range list {
		operands, err := k.operands(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range operands {
			if o.buffer.Layout != kernel.LayoutPlanes {
				continue
			}
			planes++
			blocks := int64(len(o.data) / o.buffer.DType.BlockBytes())
			if !bytes.Equal(kernel.UnpackPlanes(o.buffer.DType, o.initial(), blocks), o.data) {
				t.Errorf("%s: the buffer does not have the blocks of %s", k.About, o.buffer.Name)
			}
		}
	}
	if planes == 0 {
		t.Error("no weight is in planes")
	}
}
