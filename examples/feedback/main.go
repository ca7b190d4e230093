// Feedback finds the largest eigenvalue of a matrix by power iteration. The
// matrix and the vector stay on the device from run to run.
//
//	go run ./examples/feedback
//	go run ./examples/feedback -device cpu -steps 100
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

const size = 64

func main() {
	device := flag.String("device", "auto", "the device to run on")
	steps := flag.Int("steps", 30, "how many times the vector is multiplied by the matrix")
	flag.Parse()
	length, traffic, err := largest(context.Background(), *device, *steps)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("largest eigenvalue: %.4f\n", length)
	fmt.Printf("%d bytes went to the device, %d came back\n", traffic.In, traffic.Out)
}

// power multiplies v f32[size, 1] by the matrix m f32[size, size]. It outputs the direction and the length of the
// result.
func power(b *frontend.Builder) {
	m, v := b.Input("m", ir.F32, size, size), b.Input("v", ir.F32, size, 1)
	product := m.MatMul(v)
	length := product.Mul(product).Sum().Sqrt()
	b.Output("direction", product.Div(length))
	b.Output("length", length)
}

// largest returns the eigenvalue of the matrix of ones with 2 added along the diagonal, which is size+2.
func largest(ctx context.Context, device string, steps int) (eigenvalue float32, moved vkc.Traffic, err error) {
	g, err := frontend.Build("power", power)
	if err != nil {
		return 0, vkc.Traffic{}, err
	}
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return 0, vkc.Traffic{}, err
	}
	defer dev.Close()
	exe, err := dev.LoadGraph(ctx, g, nil)
	if err != nil {
		return 0, vkc.Traffic{}, err
	}
	defer exe.Close()
	values, start := make([]float32, size*size), make([]float32, size)
	for i := range values {
		values[i] = 1
	}
	for i := range size {
		values[i*size+i] += 2
	}
	start[0] = 1
	matrix, err := vkc.Of(values, size, size)
	if err != nil {
		return 0, vkc.Traffic{}, err
	}
	vector, err := vkc.Of(start, size, 1)
	if err != nil {
		return 0, vkc.Traffic{}, err
	}
	before := dev.Traffic()
	length, err := iterate(ctx, exe, matrix, vector, steps)
	after := dev.Traffic()
	return length, vkc.Traffic{In: after.In - before.In, Out: after.Out - before.Out}, err
}

// iterate feeds the direction back as the vector. The host reads only the length, 4 bytes, of each result.
func iterate(ctx context.Context, exe *vkc.Executable, matrix, vector *ir.Data, steps int) (
	length float32, err error) {
	m, err := exe.Upload(ctx, matrix)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	v, err := exe.Upload(ctx, vector)
	if err != nil {
		return 0, err
	}
	for range steps {
		res, err := exe.Run(ctx, nil, vkc.RunOptions{
			Inputs: map[string]*vkc.DeviceTensor{"m": m, "v": v},
			Keep:   []string{"direction"},
		})
		v.Close()
		if err != nil {
			return 0, err
		}
		v = res.Kept["direction"]
		values, err := vkc.Values[float32](res.Outputs["length"])
		if err != nil {
			return 0, err
		}
		length = values[0]
	}
	return length, v.Close()
}
