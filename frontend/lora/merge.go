package lora

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/llm"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// Scaled is an adapter with a scale.
type Scaled struct {
	*Adapter
	Scale float64
}

// Merged reports what Merge has written.
type Merged struct {
	Adapted   int // matrices with an adapter
	Quantized int // of these, in a block format, which rounds the sum again
}

// Merge adds the tensors and metadata of a model to w, with the matrices of adapters added to the weights. A weight
// keeps its type. Sums are computed a few rows at a time, when w is written, so the whole model is never in memory.
// Merge returns an error if a weight of an adapter is also the model's output, or has a type that cannot be written.
func Merge(ctx context.Context, w *gguf.Writer, f *gguf.File, list []Scaled) (m Merged, err error) {
	if f, err = f.Unscaled(); err != nil {
		return m, err
	}
	for _, kv := range f.Metadata() {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			return m, err
		}
	}
	for _, t := range f.Tensors() {
		var own []Scaled // the adapters of this weight
		for _, s := range list {
			if _, ok := s.matrices[t.Name]; ok && s.Scale != 0 {
				own = append(own, s)
			}
		}
		if len(own) == 0 {
			err = w.AddFunc(t.Name, t.DType, t.Dims, func() (*ir.Data, error) { return f.Weight(t.Name) })
		} else {
			if t.Name == embedding && !f.HasWeight("output.weight") {
				return m, fmt.Errorf("lora: weight %q is also the output of this model, which the adapter does not "+
					"change: use the adapter without merging it", t.Name)
			}
			if _, encodes := quant.Supported(t.DType); t.DType.IsBlock() && !encodes {
				return m, fmt.Errorf("lora: weight %q is %s, and merging cannot write this type: want another "+
					"type", t.Name, t.DType)
			}
			m.Adapted++
			if t.DType.IsBlock() {
				m.Quantized++
			}
			err = w.AddStream(t.Name, t.DType, t.Dims, func(out io.Writer) error { return merge(ctx, out, f, t, own) })
		}
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// chunkElems is the approximate number of elements that are merged at a time.
const chunkElems = 1 << 20

// merge writes weight t of file f plus the changes of its adapters, a chunk of rows at a time.
func merge(ctx context.Context, out io.Writer, f *gguf.File, t gguf.Tensor, list []Scaled) error {
	d, err := f.Weight(t.Name)
	if err != nil {
		return err
	}
	deltas := make([]delta, len(list))
	for i, s := range list {
		if deltas[i], err = s.delta(t.Name); err != nil {
			return err
		}
		if err := deltas[i].orderColumns(f, t.Name); err != nil {
			return err
		}
	}
	last := len(t.Dims) - 1
	columns := t.Dims[last]
	rows, each := 1, t.Dims[last-1] // of all matrices, and of one
	for _, n := range t.Dims[:last] {
		rows *= n
	}
	size, err := t.DType.BytesFor(int64(columns))
	if err != nil {
		return err
	}
	most := max(1, chunkElems/columns) // rows at a time
	for first := 0; first < rows; first += most {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(most, rows-first)
		raw := make([]byte, size*int64(n))
		err := mmap.Guard(func() error { copy(raw, d.Bytes[size*int64(first):]); return nil })
		if err != nil {
			return err
		}
		part := &ir.Data{DType: t.DType, Dims: []int{n, columns}, Bytes: raw}
		if err := adapt(part, first, each, deltas); err != nil {
			return err
		}
		if _, err := out.Write(raw); err != nil {
			return err
		}
	}
	return nil
}

// adapt adds the deltas to rows of a weight, in place. first is the number of the first row, and a matrix of a stack
// has `each` rows.
func adapt(part *ir.Data, first, each int, deltas []delta) error {
	x, err := floats(part)
	if err != nil {
		return err
	}
	addRows(x, part.Dims[1], first, each, deltas)
	if part.DType.IsBlock() {
		return quant.Quantize(part.Bytes, part.DType, x, nil)
	}
	return encode(part.Bytes, part.DType, x)
}

// delta is the low-rank change of a weight: scale*(b·a), for a [rank, columns] and b [rows, rank], or stacks of them.
type delta struct {
	a, b  []float32
	rank  int
	scale float64
}

// orderColumns puts the columns of A into the order in which the file has the weight's columns; see nn.Linear.
func (d *delta) orderColumns(f *gguf.File, weight string) error {
	name := strings.TrimSuffix(weight, ".weight") + ".order"
	if !f.HasWeight(name) {
		return nil
	}
	data, err := f.Weight(name)
	if err != nil {
		return err
	}
	order, err := data.Ints()
	if err != nil {
		return err
	}
	columns := data.Dims[len(data.Dims)-1]
	if len(order)*d.rank != len(d.a) {
		return fmt.Errorf("weight %q has %d columns: want %d", name, len(order), len(d.a)/d.rank)
	}
	a := make([]float32, len(d.a))
	for i := range a {
		matrix := i / (columns * d.rank) // of a stack, each has its own order
		from := order[matrix*columns+i%columns]
		if from < 0 || from >= int64(columns) {
			return fmt.Errorf("weight %q has column %d: want 0 to %d", name, from, columns-1)
		}
		a[i] = d.a[i-i%columns+int(from)]
	}
	d.a = a
	return nil
}

// delta reads the change that an adapter makes to a weight.
func (s Scaled) delta(weight string) (d delta, err error) {
	matrix := s.matrices[weight]
	d.rank, d.scale = matrix.B.Shape[len(matrix.B.Shape)-1].Static(), s.Scale*matrix.Factor
	for part, to := range map[string]*[]float32{llm.AdapterA: &d.a, llm.AdapterB: &d.b} {
		data, err := s.Weight(weight + part)
		if err != nil {
			return d, err
		}
		if *to, err = floats(data); err != nil {
			return d, err
		}
	}
	if weight == embedding { // the change is A·Bᵀ, for A [tokens, rank] and B [width, rank]
		width := len(d.b) / d.rank
		transposed := make([]float32, len(d.b)) // [rank, width]
		for i, v := range d.b {
			row, column := i/d.rank, i%d.rank
			transposed[column*width+row] = v
		}
		d.a, d.b = transposed, d.a
	}
	return d, nil
}

// addRows adds the deltas, products of matrices B and A, to rows x of a weight. first is the index of the first row of
// x. A matrix of a stack has `each` rows.
func addRows(x []float32, columns, first, each int, list []delta) {
	rows := len(x) / columns
	workers := min(runtime.GOMAXPROCS(0), rows)
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			sum := make([]float64, columns)
			for i := worker; i < rows; i += workers {
				addRow(x[i*columns:][:columns], first+i, each, list, sum)
			}
		})
	}
	all.Wait()
}

// addRow adds the deltas to x, row number `row` of a weight. sum is working memory for a row.
func addRow(x []float32, row, each int, list []delta, sum []float64) {
	for j, v := range x {
		sum[j] = float64(v)
	}
	matrix := row / each // of a stack
	for _, d := range list {
		for r := range d.rank {
			// The conversions round products, so that all processors have the same sums.
			b := float64(d.scale * float64(d.b[row*d.rank+r]))
			for j, a := range d.a[(matrix*d.rank+r)*len(x):][:len(x)] {
				sum[j] += float64(b * float64(a))
			}
		}
	}
	for j, v := range sum {
		x[j] = float32(v)
	}
}

// floats decodes a tensor, which may be quantized, to f32.
func floats(d *ir.Data) (x []float32, err error) {
	err = mmap.Guard(func() error {
		if d.DType.IsBlock() {
			x = make([]float32, d.Elems())
			return quant.Dequantize(x, d.DType, d.Bytes)
		}
		wide, err := d.Floats()
		x = make([]float32, len(wide))
		for i, v := range wide {
			x[i] = float32(v)
		}
		return err
	})
	return x, err
}

// encode writes floats of type t. A value that the type cannot represent is an error.
func encode(to []byte, t ir.DType, x []float32) error {
	const f16Max, f16Overflow = 65504, 65520 // the largest number, and the least that rounds to infinity
	wide := make([]float64, len(x))
	for i, v := range x {
		wide[i] = float64(v)
		if t == ir.F16 && !(math.Abs(wide[i]) < f16Overflow) || math.IsNaN(wide[i]) || math.IsInf(wide[i], 0) {
			return &quant.ValueError{Type: t, Index: i, Value: v, Limit: f16Max}
		}
	}
	ir.EncodeFloats(to, t, wide)
	return nil
}

// Write writes an adapter as a GGUF file. a and b have A [rank, in] and B [out, rank] by the names of the weights, and
// alpha divided by the rank is the factor.
func Write(path, architecture string, alpha float64, a, b map[string]*ir.Data) error {
	var w gguf.Writer
	for _, kv := range []gguf.KV{{Key: typeKey, Value: "adapter"}, {Key: archKey, Value: architecture},
		{Key: kindKey, Value: "lora"}, {Key: alphaKey, Value: float32(alpha)}} {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		err := w.Add(name+llm.AdapterA, a[name])
		if err == nil && b[name] == nil {
			err = fmt.Errorf("lora: the adapter has no B for %q", name)
		}
		if err == nil {
			err = w.Add(name+llm.AdapterB, b[name])
		}
		if err != nil {
			return err
		}
	}
	return w.WriteFile(path)
}
