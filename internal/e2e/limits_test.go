package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// many are graphs of more tensors than one kernel binds, of more ops than one
// computes, or of more sums than one row kernel adds up.
var many = map[string]func(b *frontend.Builder, n int){
	"concat": func(b *frontend.Builder, n int) {
		list := tensors(b, n)
		b.Output("o", list[0].Concat(1, list[1:]...).Exp())
	},
	"sum": func(b *frontend.Builder, n int) { b.Output("o", sum(tensors(b, n))) },
	"softmax": func(b *frontend.Builder, n int) {
		list := tensors(b, n)
		b.Output("o", sum(list).Softmax(1).Mul(sum(list[:n/2])))
	},
	"product": func(b *frontend.Builder, n int) {
		list := tensors(b, n)
		b.Output("o", sum(list).MatMul(b.Weight("w", ir.F32, 7, 7)).Add(sum(list[1:])))
	},
	"sums of one row": func(b *frontend.Builder, n int) {
		x := b.Input("x", ir.F32, 3, 7)
		var list []frontend.Tensor
		for i := range 3 * n {
			list = append(list, x.Affine(0.01*float64(i), 0.1).Tanh().Sum(1))
		}
		b.Output("o", sum(list))
	},
	"a row again and again": func(b *frontend.Builder, n int) {
		x := b.Input("x", ir.F32, 3, 7)
		mean := x.Mean(1)
		for range 2 * n {
			mean = x.Sub(mean.Unsqueeze(1)).Mean(1)
		}
		b.Output("o", mean)
	},
	"dear ops": func(b *frontend.Builder, n int) {
		x := b.Input("x", ir.F32, 3, 7)
		for range 2 * n {
			x = x.Sin()
		}
		b.Output("o", x)
	},
	"states": func(b *frontend.Builder, n int) {
		x := b.Input("x", ir.F32, 3, 7)
		for i := range n {
			s := b.State(fmt.Sprint("s", i), ir.F32, 3, 7)
			x = x.Add(s).Affine(0.5, 0)
			b.Update(s, x)
		}
		b.Output("o", x)
	},
}

func tensors(b *frontend.Builder, n int) []frontend.Tensor {
	var list []frontend.Tensor
	for i := range n {
		list = append(list, b.Input(fmt.Sprint("x", i), ir.F32, 3, 7))
	}
	return list
}

func sum(list []frontend.Tensor) frontend.Tensor {
	s := list[0]
	for _, x := range list[1:] {
		s = s.Add(x)
	}
	return s
}

// TestManyOperands runs such graphs on a device.
func TestManyOperands(t *testing.T) {
	dev := openDevice(t)
	var cases []runCase
	for name, graph := range many {
		cases = append(cases, runCase{name, build(t, func(b *frontend.Builder) { graph(b, 40) }), once})
	}
	checkRuns(t, dev, cases)
}

// TestManyOperandsLower takes them as far as GLSL for every profile, with the profile's limit of buffers or with 5.
func TestManyOperandsLower(t *testing.T) {
	for i, profile := range device.Kinds() {
		caps, err := device.Profile(profile)
		if err != nil {
			t.Fatal(err)
		}
		own := caps.MaxStorageBuffers
		for j, name := range slices.Sorted(maps.Keys(many)) {
			buffers := []uint32{own, 5}[(i+j)%2]
			caps.MaxStorageBuffers = buffers
			low, err := compiler.Lower(context.Background(),
				build(t, func(b *frontend.Builder) { many[name](b, 100) }), caps, nil)
			if err != nil {
				t.Errorf("%s for %s with %d buffers: %v", name, profile, buffers, err)
				continue
			}
			for _, k := range low.Kernels {
				if len(k.Bindings) > int(buffers) {
					t.Errorf("%s for %s: %s binds %d buffers, more than %d", name, profile, k.Name,
						len(k.Bindings), buffers)
				}
			}
		}
	}
}
