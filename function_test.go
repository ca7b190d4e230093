package vkc_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
)

// onCPU opens the CPU fast path, on which functions compile at once.
func onCPU(t *testing.T) *vkc.Device {
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	vktest.CloseAfter(t, dev)
	return dev
}

func TestFunc(t *testing.T) {
	dev := onCPU(t)
	type row []float32
	same := func(x frontend.Tensor) frontend.Tensor { return x }
	want := func(have any, err error, want any) {
		t.Helper()
		if err != nil {
			t.Error(err)
		} else if !reflect.DeepEqual(have, want) {
			t.Errorf("have %v, want %v", have, want)
		}
	}
	matmul := vkc.FuncOn[func(a, b [][]float32) ([][]float32, error)](dev,
		func(a, b frontend.Tensor) frontend.Tensor { return a.MatMul(b) })
	c, err := matmul([][]float32{{1, 2}, {3, 4}}, [][]float32{{1}, {10}})
	want(c, err, [][]float32{{21}, {43}})
	c, err = matmul([][]float32{{1, 2, 3}}, [][]float32{{1, 4}, {1, 5}, {1, 6}})
	want(c, err, [][]float32{{6, 32}})

	both := vkc.FuncOn[func(ctx context.Context, x []int32, by float64) (int64, []float64, error)](dev,
		func(b *frontend.Builder, x, by frontend.Tensor) (frontend.Tensor, frontend.Tensor) {
			return x.Sum(0).Cast(ir.I64), x.Cast(ir.F64).Add(b.Const([]float64{1})).Mul(by)
		})
	sum, scaled, err := both(t.Context(), []int32{1, 2, -5}, 0.5)
	want(sum, err, int64(-2))
	want(scaled, err, []float64{1, 1.5, -2})
	rows, err := vkc.FuncOn[func([]row) ([]row, error)](dev, same)([]row{{1}, {2}})
	want(rows, err, []row{{1}, {2}})
	bools, err := vkc.FuncOn[func([][][]uint8) ([][][]bool, error)](dev,
		func(x frontend.Tensor) frontend.Tensor { return x.Gt(x.Lit(1)) })([][][]uint8{{{0, 2}}, {{3, 1}}})
	want(bools, err, [][][]bool{{{false, true}}, {{true, false}}})
	empty, err := vkc.FuncOn[func([][]float32) ([][]float32, error)](dev, same)(nil)
	want(empty, err, [][]float32{})
	half, err := vkc.FuncOn[func(*ir.Data) ([]float32, error)](dev, same)(
		vkc.Must(vkc.OfType(vkc.F16, []float32{1.5}, 1)))
	want(half, err, []float32{1.5})
}

func TestFuncErrors(t *testing.T) {
	dev := onCPU(t)
	one := func(x frontend.Tensor) frontend.Tensor { return x.AddScalar(1) }
	add := vkc.FuncOn[func(a, b [][]float32) ([][]float32, error)](dev,
		func(a, b frontend.Tensor) frontend.Tensor { return a.Add(b) })
	_, err := add([][]float32{{1, 2}, {3}}, nil)
	devtest.WantError(t, err, "argument 0", "2 and 1 elements")
	_, err = add([][]float32{{1, 2}}, [][]float32{{1, 2, 3}})
	devtest.WantError(t, err, "function_test.go")
	_, err = vkc.FuncOn[func([]float32) (float32, error)](dev, one)([]float32{1})
	devtest.WantError(t, err, "result 0", "rank 1", "want rank 0")
	_, err = vkc.FuncOn[func([]float64) ([]float32, error)](dev, one)([]float64{1})
	devtest.WantError(t, err, "does not hold every value of f64")
	_, err = vkc.FuncOn[func(context.Context, []float32) ([]float32, error)](dev, one)(nil, nil)
	devtest.WantError(t, err, "the context is nil")
	_, err = vkc.FuncOn[func(*ir.Data) ([]float32, error)](dev, one)(nil)
	devtest.WantError(t, err, "the tensor is nil")
	weighted := func(b *frontend.Builder, x frontend.Tensor) frontend.Tensor { return x.Add(b.Weight("w", vkc.F32)) }
	_, err = vkc.FuncOn[func([]float32) ([]float32, error)](dev, weighted)([]float32{1})
	devtest.WantError(t, err, "declares", "w", "as a parameter")
	_, err = vkc.FuncOn[func([]float32) ([]float32, error)](nil, one)([]float32{1})
	devtest.WantError(t, err, "device is nil")
}

// TestFuncPanics: mistakes in the types of functions are found before the first call.
func TestFuncPanics(t *testing.T) {
	one := func(x frontend.Tensor) frontend.Tensor { return x }
	for want, make := range map[string]func(){
		"must be a function type":      func() { vkc.Func[int](one) },
		"an error as its last":         func() { vkc.Func[func(float32) float32](one) },
		"have a result":                func() { vkc.Func[func(float32) error](one) },
		"function of tensors, such as": func() { vkc.Func[func(float32) (float32, error)](nil) },
		"has 1 tensors as parameters, want 2": func() {
			vkc.Func[func(a, b float32) (float32, error)](one)
		},
		"has 1 results, want 2": func() { vkc.Func[func(a float32) (b, c float32, err error)](one) },
		"is a float32, want":    func() { vkc.Func[func(a float32) (b float32, err error)](func(float32) float32 { return 0 }) },
		"[]uint: want":          func() { vkc.Func[func(a []uint) (b float32, err error)](one) },
		"want an *ir.Data":      func() { vkc.Func[func(a float32) (b string, err error)](one) },
	} {
		func() {
			defer func() { devtest.WantError(t, recover().(error), want) }()
			make()
		}()
	}
}

// TestFuncShapes: a function keeps a limited number of programs, serves many goroutines, and its device closes it.
func TestFuncShapes(t *testing.T) {
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	builds := map[int]int{}
	var mu sync.Mutex
	double := vkc.FuncOn[func([]float32) ([]float32, error)](dev, func(x frontend.Tensor) frontend.Tensor {
		mu.Lock()
		defer mu.Unlock()
		builds[x.Shape()[0].Static()]++
		return x.MulScalar(2)
	})
	call := func(n int) {
		if y, err := double(make([]float32, n)); err != nil || len(y) != n {
			t.Error(len(y), err)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for n := range 8 {
				call(n + 1)
			}
		})
	}
	all.Wait()
	if fmt.Sprint(builds) != fmt.Sprint(map[int]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 1, 7: 1, 8: 1}) {
		t.Errorf("graphs were built this often, by length: %v", builds)
	}
	for n := range 70 {
		call(n + 1)
	}
	if call(70); builds[70] != 1 {
		t.Errorf("the program used last was built %d times", builds[70])
	}
	if call(1); builds[1] != 2 {
		t.Errorf("a program used long ago was built %d times, want 2", builds[1])
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	_, err = double([]float32{1})
	devtest.WantError(t, err, "closed")
}
