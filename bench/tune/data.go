package tune

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"

	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/keval"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/quant"
)

// guard is the number of bytes after each buffer that no kernel may write. pattern fills these bytes before a run, and
// also the elements that the kernel will write.
const (
	guard   = 256
	pattern = 0x5a
)

// operand is the content of a kernel's binding before a run, at given values of the symbols.
type operand struct {
	binding kernel.Bind
	buffer  *kernel.Buffer
	dims    []int
	size    int64 // bytes in use
	data    []byte
	rotated bool // timed dispatches use copies in turn, as in a program it is not in the cache
}

// operands describes the kernel's bindings for given values of symbols, with data for those that the kernel reads.
func (k *Kernel) operands(symbols map[string]int64) ([]operand, error) {
	list, indexBindings := make([]operand, len(k.step.Binds)), scatterIndices(k.Kernel)
	for i, bind := range k.step.Binds {
		b := &k.program.Buffers[bind.Buffer]
		dims, err := b.Shape.Eval(symbols)
		if err != nil {
			return nil, fmt.Errorf("binding %d (%s): %w", i, b.Name, err)
		}
		size, err := ir.ByteSize(b.DType, dims)
		if err != nil {
			return nil, err
		}
		o := operand{binding: bind, buffer: b, dims: dims, size: size, rotated: b.Kind != kernel.BufTemp &&
			b.Kind != kernel.BufParams && b.Kind != kernel.BufFault}
		// A binding with neither flag is read.
		if bind.Read || !bind.Write {
			if o.data, err = k.fill(i, &o, symbols, indexBindings[i]); err != nil {
				return nil, fmt.Errorf("binding %d (%s): %w", i, b.Name, err)
			}
		}
		list[i] = o
	}
	return list, nil
}

// fill returns the content of binding i, which the kernel reads: symbol values, constants of the program, or random
// numbers. If isIndex, its elements are the positions at which the kernel stores its results, as in a scatter.
func (k *Kernel) fill(i int, o *operand, symbols map[string]int64, isIndex bool) ([]byte, error) {
	switch o.buffer.Kind {
	case kernel.BufParams:
		var words []byte
		for _, s := range k.program.Symbols {
			words = binary.LittleEndian.AppendUint32(words, uint32(symbols[s.Name]))
		}
		return words, nil
	case kernel.BufWeight:
		var all []byte
		for j, s := range o.buffer.Segments {
			if s.Weight == "" {
				all = append(all, s.Data...)
				continue
			}
			d, err := bench.Random(fmt.Sprintf("binding %d.%d", i, j), s.DType, bench.Fill{}, s.Dims...)
			if err != nil {
				return nil, err
			}
			all = append(all, d.Bytes...)
		}
		return all, nil
	}
	switch t := o.buffer.DType; {
	case isIndex && t.IsInteger():
		return countingData(t, o.dims, true)
	case o.buffer.Kind == kernel.BufTemp && (t == ir.I32 || t == ir.I64): // integers that an earlier kernel computed
		return countingData(t, o.dims, false)
	}
	d, err := bench.Random(fmt.Sprintf("binding %d", i), o.buffer.DType, bench.Fill{}, o.dims...)
	if err != nil {
		return nil, err
	}
	return d.Bytes, nil
}

// scatterIndices returns the bindings with the indices at which a kernel stores its results, as in a scatter. In a
// real run all these indices are distinct: the graph asserts it (attribute unique), or an earlier kernel removed
// duplicates. Random indices would have duplicates, and the schedule would decide which result survives.
func scatterIndices(k *kernel.Kernel) map[int]bool {
	var roots []*kernel.Expr
	for _, s := range k.Stores {
		s.Index.Walk(func(f *kernel.Factor) {
			if f.Kind == kernel.FactorValue {
				roots = append(roots, f.Value)
			}
		})
	}
	if k.Guard != nil && len(roots) > 0 { // the guard decides which results are stored
		roots = append(roots, k.Guard.Point)
	}
	binds := map[int]bool{}
	kernel.Walk(roots, func(e *kernel.Expr) {
		if e.Kind == kernel.ExprLoad {
			binds[e.Bind] = true
		}
	})
	return binds
}

// countingData returns integers that count up from 0. It stands for integers that another kernel computes, which are
// usually sorted row numbers or the starts of groups. With outer it counts along the first axis first. For [3,2] that
// gives rows (0,3), (1,4), (2,5): if a row is a coordinate or a page, all rows are distinct and their numbers small.
func countingData(t ir.DType, dims []int, outer bool) ([]byte, error) {
	d, err := ir.NewData(t, dims...)
	if err != nil {
		return nil, err
	}
	values := make([]int64, d.Elems())
	rows, width := 1, len(values)
	if outer && len(dims) > 0 && dims[0] > 0 {
		rows, width = dims[0], len(values)/dims[0]
	}
	for i := range values {
		values[i] = int64(i%width*rows + i/width)
	}
	ir.EncodeInts(d.Bytes, t, values)
	return d.Bytes, nil
}

// initial returns the content of an operand's buffer before a run, in the buffer's layout, including the guard.
func (o *operand) initial() []byte {
	all := bytes.Repeat([]byte{pattern}, int(o.buffer.Bytes)+guard)
	if o.buffer.Layout == kernel.LayoutPlanes {
		copy(all, kernel.PackPlanes(o.buffer.DType, o.data))
	} else {
		copy(all, o.data)
	}
	return all
}

// result returns the used part of a buffer.
func (o *operand) result(all []byte) *ir.Data {
	return &ir.Data{DType: o.buffer.DType, Dims: o.dims, Bytes: all[:o.size]}
}

// untouched returns an error if a run wrote past an operand's elements.
func (o *operand) untouched(all []byte) error {
	for i, b := range all[o.size:] {
		if want := byte(pattern); b != want && int64(i)+o.size >= int64(len(o.data)) {
			return fmt.Errorf("byte %d behind the %d of %s was overwritten", i, o.size, o.buffer.Name)
		}
	}
	return nil
}

// evaluable bounds the operations and elements of kernels that the host evaluator computes.
const evaluable = 1 << 19

// evaluate computes a kernel's results on the host, by binding. It returns nil if that would take long, or if the
// results cannot be compared: the kernel reads a binding that it writes, makes blocks, or writes only part of a state.
func (k *Kernel) evaluate(list []operand, symbols map[string]int64) (map[int]*ir.Data, error) {
	work := k.step.Flops
	for _, o := range list {
		if o.binding.Write && (o.binding.Read || o.buffer.DType.IsBlock() || o.buffer.Kind == kernel.BufState) {
			return nil, nil
		}
		work += int64(len(o.data)) + o.size
	}
	if work > evaluable || k.Custom != nil {
		return nil, nil
	}
	var outputs []kernel.Port
	m, in, err := k.onHost(list, func(p *kernel.Program, b *kernel.Buffer, port kernel.Port) {
		b.Kind = kernel.BufOutput
		p.Outputs = append(p.Outputs, port)
		outputs = p.Outputs
	})
	if err != nil {
		return nil, err
	}
	out, err := m.Run(in, symbols)
	if err != nil {
		return nil, err
	}
	want := map[int]*ir.Data{}
	for _, port := range outputs {
		want[port.Buffer] = out[port.Name]
	}
	return want, nil
}

// onHost returns a machine of the host evaluator that runs only this kernel, and its inputs: the bindings' data, by
// name. For each buffer that the kernel writes, declare sets its kind and adds the port to the program, as an output or
// a state.
func (k *Kernel) onHost(list []operand, declare func(*kernel.Program, *kernel.Buffer, kernel.Port)) (m *keval.Machine,
	in map[string]*ir.Data, err error) {
	p := &kernel.Program{Name: k.Name, Symbols: k.program.Symbols}
	step := k.step
	step.Binds, step.Barrier = nil, false
	in = map[string]*ir.Data{}
	for i, o := range list {
		b := *o.buffer
		b.Name, b.Segments, b.Offset = fmt.Sprint("binding ", i), nil, 0
		b.Layout = kernel.LayoutBlocks // as in o.data
		port := kernel.Port{Name: b.Name, Buffer: i, DType: b.DType, Shape: b.Shape}
		switch {
		case b.Kind == kernel.BufParams: // the machine fills it with the symbols' values
		case o.binding.Write:
			declare(p, &b, port)
		default:
			b.Kind = kernel.BufInput
			p.Inputs = append(p.Inputs, port)
			in[b.Name] = &ir.Data{DType: b.DType, Dims: o.dims, Bytes: o.data}
		}
		p.Buffers = append(p.Buffers, b)
		step.Binds = append(step.Binds, kernel.Bind{Buffer: i, Read: o.binding.Read, Write: o.binding.Write})
	}
	p.Steps = []kernel.Step{step}
	encode := func(dst []byte, t ir.DType, src []float32) error { return quant.Quantize(dst, t, src, nil) }
	m, err = keval.New(p, []*kernel.Kernel{k.Kernel}, keval.Options{Decode: quant.Dequantize, Encode: encode})
	return m, in, err
}

// compareChunk is how many elements one goroutine compares.
const compareChunk = 1 << 20

// same returns an error if have and want, two results of a binding, differ by more than the tolerance. It compares
// chunks on all cores. If the tolerance is relative to the largest element, each chunk uses its own largest element,
// which makes the comparison stricter.
func same(have, want *ir.Data, tol ir.Tolerance) error {
	if bytes.Equal(have.Bytes, want.Bytes) {
		return nil
	}
	if want.DType.IsBlock() {
		return fmt.Errorf("other blocks of %s", want.DType)
	}
	size := want.DType.BlockBytes()
	n := len(want.Bytes) / size
	errs := make([]error, (n+compareChunk-1)/compareChunk)
	var wg sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i := range errs {
		from, to := i*compareChunk, min((i+1)*compareChunk, n)
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			part := func(d *ir.Data) *ir.Data {
				return &ir.Data{DType: d.DType, Dims: []int{to - from}, Bytes: d.Bytes[from*size : to*size]}
			}
			errs[i] = interp.Compare(part(have), part(want), tol).Err()
		})
	}
	wg.Wait()
	return cmp.Or(errs...) // the first one
}
