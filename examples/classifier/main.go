// Classifier trains a network to tell drawings of four shapes apart, saves it, quantizes it, and uses both:
//
//	go run ./examples/classifier
//	go run ./examples/classifier -steps 600 -o shapes.safetensors
//
// The program draws the pictures itself, with noise, random positions and random sizes. So there is nothing to
// download.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/optim"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/train"
)

const (
	side   = 16 // of a picture, in pixels
	hidden = 64
	batch  = 64
)

var shapes = []string{"disc", "square", "cross", "stripes"}

func main() {
	device := flag.String("device", "auto", "auto, vulkan (the best device), cpu, or part of a name")
	steps := flag.Int("steps", 300, "the number of steps")
	path := flag.String("o", "", "the `file` to save the network to, and to go on from if it is there")
	flag.Parse()
	if _, err := run(context.Background(), *device, *steps, *path, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// draw returns a noisy picture of a shape. The shape consists of the pixels whose distance from its center is less
// than its size.
func draw(rng *rand.Rand, shape int) []float32 {
	x0, y0, size := 5+6*rng.Float64(), 5+6*rng.Float64(), 2.5+2*rng.Float64()
	out := make([]float32, 0, side*side)
	for y := range side {
		for x := range side {
			dx, dy := math.Abs(float64(x)-x0), math.Abs(float64(y)-y0)
			inside := false
			switch shape {
			case 0:
				inside = math.Hypot(dx, dy) < size*1.13 // of the area of the square
			case 1:
				inside = max(dx, dy) < size
			case 2:
				inside = min(dx, dy) < size/3 && max(dx, dy) < size*1.3
			case 3:
				inside = max(dx, dy) < size && int(float64(y)-y0+side)%2 == 0
			}
			v := 0.25 * rng.NormFloat64()
			if inside {
				v++
			}
			out = append(out, float32(v))
		}
	}
	return out
}

// pictures draws n pictures, which are determined by the seed.
func pictures(seed uint64, n int) (vkc.Tensors, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	var pixels []float32
	var labels []int32
	for range n {
		shape := rng.IntN(len(shapes))
		pixels, labels = append(pixels, draw(rng, shape)...), append(labels, int32(shape))
	}
	images, err := vkc.Of(pixels, n, side*side)
	if err != nil {
		return nil, err
	}
	classes, err := vkc.Of(labels, n)
	return vkc.Tensors{"images": images, "labels": classes}, err
}

// network returns a score per shape, for images f32[N, side*side] and weights by name.
func network(images frontend.Tensor, weight func(name string, rows, columns int) frontend.Tensor) frontend.Tensor {
	x := images.MatMulT(weight("first", hidden, side*side)).Gelu()
	x = x.MatMulT(weight("second", hidden, hidden)).Gelu()
	return x.MatMulT(weight("last", len(shapes), hidden))
}

// trainingStep builds the graph of a training step.
func trainingStep(b *frontend.Builder) {
	images, labels := b.Input("images", ir.F32, batch, side*side), b.Input("labels", ir.I32, batch)
	var params []frontend.Tensor
	logits := network(images, func(name string, rows, columns int) frontend.Tensor {
		first := ir.InitialNormal(0, 1/math.Sqrt(float64(columns)), uint64(len(params)))
		params = append(params, b.StateFrom(first, name, ir.F32, rows, columns))
		return params[len(params)-1]
	})
	losses, _ := logits.CrossEntropy(labels)
	loss := losses.Mean()
	b.Output("loss", loss)
	optim.Minimize(loss, optim.NewAdamW(3e-3), params...)
}

// inference builds the graph that classifies images with the trained weights. These may be stored in any dtype.
func inference(b *frontend.Builder) {
	logits := network(b.Input("images", ir.F32, b.Sym("N", 512), side*side),
		func(name string, rows, columns int) frontend.Tensor { return b.Weight(name, ir.F32, rows, columns) })
	b.Output("class", logits.Argmax(-1))
}

// run trains the network, and returns its accuracy on new pictures by the dtype of the weights.
func run(ctx context.Context, device string, steps int, path string, out io.Writer) (right map[ir.DType]float64,
	err error) {
	if path == "" {
		dir, err := os.MkdirTemp("", "classifier-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "shapes.safetensors")
	}
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	g, err := frontend.Build("step", trainingStep)
	if err != nil {
		return nil, err
	}
	exe, err := dev.LoadGraph(ctx, g, nil)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(out, exe.Why())
	_, err = train.Run(ctx, exe, batches, train.Options{Steps: steps, Checkpoint: path,
		Progress: func(p train.Progress) {
			if p.Step%50 == 0 || p.Step == p.Steps {
				fmt.Fprintln(out, p)
			}
		}})
	if err = errors.Join(err, exe.Close()); err != nil {
		return nil, err
	}
	weights, err := vkc.OpenWeights(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, weights.Close()) }()
	right = map[ir.DType]float64{}
	for _, t := range []ir.DType{ir.F32, ir.Q8_0, ir.Q4_0} {
		stored, bytes, err := quantizedWeights(weights, t)
		if err != nil {
			return nil, err
		}
		if right[t], err = accuracy(ctx, dev, stored); err != nil {
			return nil, err
		}
		fmt.Fprintf(out, "%s: %d bytes of weights, %.1f %% of new pictures right\n", t, bytes, 100*right[t])
	}
	return right, nil
}

// batches returns new pictures for each step.
func batches(after int) iter.Seq2[vkc.Tensors, error] {
	return func(yield func(vkc.Tensors, error) bool) {
		for i := after; ; i++ {
			if !yield(pictures(uint64(i), batch)) {
				return
			}
		}
	}
}

// quantizedWeights returns the network's weights in a dtype, and their size.
func quantizedWeights(src ir.WeightSource, t ir.DType) (weights vkc.WeightMap, bytes int, err error) {
	weights = vkc.WeightMap{}
	for _, name := range []string{"first", "second", "last"} {
		d, err := src.Weight(name)
		if err != nil {
			return nil, 0, err
		}
		values, err := vkc.Values[float32](d)
		if err != nil {
			return nil, 0, err
		}
		if weights[name], err = vkc.OfType(t, values, d.Dims...); err != nil {
			return nil, 0, err
		}
		bytes += len(weights[name].Bytes)
	}
	return weights, bytes, nil
}

// accuracy returns the fraction of new pictures that the network classifies correctly.
func accuracy(ctx context.Context, dev *vkc.Device, weights ir.WeightSource) (float64, error) {
	g, err := frontend.Build("classify", inference)
	if err != nil {
		return 0, err
	}
	exe, err := dev.LoadGraph(ctx, g, weights)
	if err != nil {
		return 0, err
	}
	defer exe.Close()
	in, err := pictures(1<<40, 512)
	if err != nil {
		return 0, err
	}
	res, err := exe.Run(ctx, vkc.Tensors{"images": in["images"]})
	if err != nil {
		return 0, err
	}
	have, err := vkc.Values[int32](res.Outputs["class"])
	if err != nil {
		return 0, err
	}
	want, err := vkc.Values[int32](in["labels"])
	right := 0
	for i := range want {
		if have[i] == want[i] {
			right++
		}
	}
	return float64(right) / float64(len(want)), err
}
