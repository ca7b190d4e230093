// Gonum measures matmuls and sums of f32 with gonum's BLAS, which like vkc's CPU backend is written in Go and assembly,
// at the sizes of vkc bench. It writes anchors for vkc bench --against:
//
//	cd bench/gonum && GOMAXPROCS=1 go run . > /tmp/gonum.json
//	GOMAXPROCS=1 vkc bench --device cpu --scale full --filter '^(matmul|add)/f32/' --against /tmp/gonum.json
//
// It is a separate module, so that vkc does not depend on gonum.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"runtime"
	"slices"
	"time"

	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/ir"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
)

func main() {
	tiny := flag.Bool("tiny", false, "the sizes of vkc bench --scale tiny")
	flag.Parse()
	scale := bench.Full
	if *tiny {
		scale = bench.Tiny
	}
	anchors, err := measure(bench.Cases(scale, "matmul", "memory"))
	if err != nil {
		log.Fatal(err)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	if err := out.Encode(anchors); err != nil {
		log.Fatal(err)
	}
}

var (
	products = regexp.MustCompile(`^matmul/f32/\d+x\d+x\d+$`)
	sums     = regexp.MustCompile(`^add/f32/\d+$`)
)

// measure times gonum on the cases that it has a function for, and returns the times as a file of anchors.
func measure(cases []bench.Case) (*bench.AnchorFile, error) {
	file := &bench.AnchorFile{Format: bench.AnchorFormat, Device: fmt.Sprintf("the processor, GOMAXPROCS=%d", runtime.GOMAXPROCS(0)),
		Date: time.Now().UTC().Format(time.DateOnly), About: "gonum's BLAS, by the wall clock"}
	for _, c := range cases {
		var run func() error
		var err error
		switch {
		case products.MatchString(c.Name):
			run, err = matmul(c.Sizes["m"], c.Sizes["n"], c.Sizes["k"])
		case sums.MatchString(c.Name):
			run, err = sum(c.Sizes["n"])
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := bench.MeasureWall(bench.Options{}, run)
		if err != nil {
			return nil, err
		}
		file.Anchors = append(file.Anchors,
			bench.Point{Case: c.Name, By: "gonum", Micros: float64(t.Median.Nanoseconds()) / 1e3})
	}
	if file.Anchors == nil {
		return nil, fmt.Errorf("none of %d cases is a product or a sum of f32", len(cases))
	}
	return file, nil
}

// matmul returns a function that computes y = x wᵀ with gonum, for x[m,k] and w[n,k]. Like vkc's case it writes into
// memory that exists before.
func matmul(m, n, k int) (func() error, error) {
	x, err := random("x", m, k)
	if err != nil {
		return nil, err
	}
	w, err := random("w", n, k)
	if err != nil {
		return nil, err
	}
	a := blas32.General{Rows: m, Cols: k, Stride: k, Data: x}
	b := blas32.General{Rows: n, Cols: k, Stride: k, Data: w}
	y := blas32.General{Rows: m, Cols: n, Stride: n, Data: make([]float32, m*n)}
	return func() error {
		blas32.Gemm(blas.NoTrans, blas.Trans, 1, a, b, 0, y)
		return nil
	}, nil
}

// sum returns a function that adds a to b in place. Case add writes its result elsewhere, but both read two arrays and
// write one.
func sum(n int) (func() error, error) {
	a, err := random("a", n)
	if err != nil {
		return nil, err
	}
	b := slices.Clone(a)
	return func() error {
		blas32.Axpy(1, blas32.Vector{N: n, Inc: 1, Data: a}, blas32.Vector{N: n, Inc: 1, Data: b})
		return nil
	}, nil
}

// random returns the random data that vkc bench gives to the input of that name.
func random(name string, dims ...int) ([]float32, error) {
	d, err := bench.Random(name, ir.F32, bench.Fill{}, dims...)
	if err != nil {
		return nil, err
	}
	wide, err := d.Floats()
	if err != nil {
		return nil, err
	}
	values := make([]float32, len(wide))
	for i, v := range wide {
		values[i] = float32(v)
	}
	return values, nil
}
