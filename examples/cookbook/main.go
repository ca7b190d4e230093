// Cookbook solves common tasks with vkc, a file each, next to the same computation in plain Go:
//
//	go run ./examples/cookbook               # all recipes
//	go run ./examples/cookbook heat kmeans   # two of them
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"slices"
	"time"

	"github.com/vkc-go/vkc"
)

// recipe is a task. prepare makes its inputs, and returns its computation with vkc and in plain Go.
type recipe struct {
	name, about string
	size, small int     // of the task: in main, and in the tests
	tolerance   float64 // the largest difference of a result, relative to the largest one
	prepare     func(ctx context.Context, dev *vkc.Device, size int) (task, error)
}

// task computes the same numbers twice. close frees what it holds on the device; it may be nil.
type task struct {
	vkc   func() ([]float32, error)
	plain func() []float32
	close func() error
}

var recipes = []recipe{heat, nbody, monteCarlo, sparse, histogram, kmeans, mel, images, neighbours, service, customOp}

func main() {
	device := flag.String("device", "auto", "auto, vulkan, cpu, or part of a device's name")
	flag.Parse()
	if err := cook(context.Background(), *device, flag.Args(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// cook runs the recipes of these names, or all of them.
func cook(ctx context.Context, device string, names []string, out io.Writer) error {
	for _, name := range names {
		if !slices.ContainsFunc(recipes, func(r recipe) bool { return r.name == name }) {
			return fmt.Errorf("there is no recipe %q", name)
		}
	}
	dev, err := vkc.OpenDevice(device)
	if err != nil {
		return err
	}
	defer dev.Close()
	fmt.Fprintln(out, "on", dev.Why())
	for _, r := range recipes {
		if len(names) > 0 && !slices.Contains(names, r.name) {
			continue
		}
		if err := r.compare(ctx, dev, out); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// compare prints the times of a recipe with vkc and in plain Go.
func (r recipe) compare(ctx context.Context, dev *vkc.Device, out io.Writer) error {
	t, err := r.prepare(ctx, dev, r.size)
	if err != nil {
		return err
	}
	if _, err := t.vkc(); err != nil { // compiles
		return err
	}
	start := time.Now()
	have, err := t.vkc()
	if err != nil {
		return err
	}
	ours := time.Since(start)
	start = time.Now()
	want := t.plain()
	plain := time.Since(start)
	fmt.Fprintf(out, "%-11s %-48s vkc %10s   plain Go %10s   difference %.1g\n", r.name, r.about,
		ours.Round(time.Microsecond), plain.Round(time.Microsecond), difference(have, want))
	if t.close == nil {
		return nil
	}
	return t.close()
}

// difference is the largest difference between two results, relative to the largest number.
func difference(have, want []float32) float64 {
	if len(have) != len(want) {
		return math.Inf(1)
	}
	largest, worst := 1e-30, 0.0
	for i := range want {
		largest = max(largest, math.Abs(float64(want[i])))
		worst = max(worst, math.Abs(float64(have[i]-want[i])))
	}
	return worst / largest
}

// noise returns n numbers from -1 to 1 that look random.
func noise(n int) []float32 {
	out, state := make([]float32, n), uint32(1)
	for i := range out {
		state = state*1664525 + 1013904223
		out[i] = float32(state>>8)/(1<<23) - 1
	}
	return out
}

// rowsOf cuts a slice into rows of n elements.
func rowsOf(values []float32, n int) [][]float32 { return slices.Collect(slices.Chunk(values, n)) }
