package rewrite

import (
	"embed"
	"strings"

	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/ir"
)

//go:embed kernels/*.glsl
var kernels embed.FS

// kernelSource returns the GLSL of a custom op in folder kernels, without the comment at its beginning. Words in
// capital letters stand for the parts that the caller fills in.
func kernelSource(name string) string {
	text, err := kernels.ReadFile("kernels/" + name + ".glsl")
	if err != nil {
		panic(err) // the file is embedded, so this is a bug
	}
	_, source, _ := strings.Cut(string(text), "\n\n")
	return strings.TrimSuffix(source, "\n")
}

// reference returns the Go reference of a custom op, given a function that bails out on errors.
func reference(f func(args []*ir.Data, a ir.Attrs) []*ir.Data) func([]*ir.Data, ir.Attrs) ([]*ir.Data, error) {
	return func(args []*ir.Data, a ir.Attrs) (_ []*ir.Data, err error) {
		defer bailout.Caught(&err)
		return f(args, a), nil
	}
}

func ints(d *ir.Data) []int64     { return bailout.Must(d.Ints()) }
func floats(d *ir.Data) []float64 { return bailout.Must(d.Floats()) }

// ofInts and ofFloats return a tensor of dtype t.
func ofInts(t ir.DType, v []int64, dims ...int) *ir.Data {
	return bailout.Must(ir.FromInts(t, v, dims...))
}
func ofFloats(t ir.DType, v []float64, dims ...int) *ir.Data {
	return bailout.Must(ir.FromFloats(t, v, dims...))
}
