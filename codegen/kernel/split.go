package kernel

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Scratch is a buffer by which the parts of a split kernel pass results on.
type Scratch struct {
	Name string
	Type ir.Type
}

// SplitAttention cuts a kernel of FamilyAttention in two, for attentions of so
// few rows that they would leave a device idle: the first goes over the keys in
// that many runs at the same time and stores the results of each run, the
// second, a row kernel, joins the runs and does the stores. What they pass on
// lies in scratch buffers, whose numbers for the bindings come from buffer. A
// part may have bindings that it does not use.
func SplitAttention(k *Kernel, splits int, buffer func(Scratch) int) (partial, combine *Kernel, err error) {
	if err := k.CheckAttention(); err != nil {
		return nil, nil, err
	}
	ax := k.AttentionAxes()
	if splits < 2 || !k.Parallel[ax.Split].Is(1) {
		return nil, nil, fmt.Errorf("kernel: %s cannot be split into %d", k.Name, splits)
	}
	runs := ir.D(splits)
	rows := k.Parallel[1:ax.Value]
	value := k.Parallel[ax.Value]
	scratch := []Scratch{
		{"partial sums", ir.Type{DType: ir.F32, Shape: slices.Concat(rows, []ir.Dim{runs, value})}},
		{"partial weights", ir.Type{DType: ir.F32, Shape: slices.Concat(rows, []ir.Dim{runs, ir.D(2)})}},
	}
	s := splitter{k: k, row: rowIndex(rows), runs: runs, value: value}
	for _, c := range scratch {
		s.buffers = append(s.buffers, buffer(c))
	}
	return s.partial(scratch), s.combine(scratch), nil
}

// rowIndex is the row-major position of a row, whose axes begin after the split.
func rowIndex(rows []ir.Dim) Index {
	x := Const(0)
	for i, d := range rows {
		x = x.Mul(DimIndex(d)).Plus(Axis(1+i, d))
	}
	return x
}

type splitter struct {
	k           *Kernel
	row         Index
	runs, value ir.Dim
	buffers     []int // of the scratch
}

// sumAt and statAt are where a run's sums, and its largest score (0) and sum of
// weights (1), lie.
func (s splitter) sumAt(run Index) Index {
	e := Axis(s.k.AttentionAxes().Value, s.value)
	return s.row.Mul(DimIndex(s.runs)).Plus(run).Mul(DimIndex(s.value)).Plus(e)
}

func (s splitter) statAt(run Index, which int64) Index {
	return s.row.Mul(DimIndex(s.runs)).Plus(run).Times(2).Plus(Const(which))
}

// partial is the attention over runs of keys.
func (s splitter) partial(scratch []Scratch) *Kernel {
	k := *s.k
	ax := s.k.AttentionAxes()
	k.Name += "_split"
	k.Parallel = slices.Clone(s.k.Parallel)
	k.Parallel[ax.Split] = s.runs
	run := Axis(ax.Split, s.runs)
	b := newBuilderAfter(s.k.Roots())
	sums := len(k.Bindings)
	k.Stores = []Store{
		{Bind: sums, Index: s.sumAt(run), Value: b.Acc(2, ir.F32, "weighted"), PerElement: true},
		{Bind: sums + 1, Index: s.statAt(run, 0), Value: b.Acc(0, ir.F32, "top")},
		{Bind: sums + 1, Index: s.statAt(run, 1), Value: b.Acc(1, ir.F32, "sum")},
	}
	k.Bindings = s.bindings(&k, scratch)
	return &k
}

// combine joins the runs. Its axes are those of the whole kernel, with the runs
// in place of the keys, so that the stores are the same.
func (s splitter) combine(scratch []Scratch) *Kernel {
	k := *s.k
	k.Name += "_join"
	k.Family, k.Attention, k.Fold = FamilyRow, nil, s.runs
	run := Axis(s.k.AttentionAxes().Key, s.runs)
	b := newBuilderAfter(s.k.Roots())
	sums := len(k.Bindings)
	load := func(bind int, x Index) *Expr { return b.Load(bind, ir.F32, x, scratch[bind-sums].Name) }
	f32 := func(op ir.Op, args ...*Expr) *Expr { return b.Apply(op, ir.F32, nil, args...) }
	top := load(sums+1, s.statAt(run, 0))
	weight := f32(ir.OpExp2, f32(ir.OpSub, top, b.Acc(0, ir.F32, "top")))
	weight.Hint = "weight"
	k.Phases = []Phase{
		{Combine: CombineMax, Value: top, Name: "top"},
		{Combine: CombineSum, Value: f32(ir.OpMul, weight, load(sums+1, s.statAt(run, 1))), Name: "sum"},
		{Combine: CombineSum, Value: f32(ir.OpMul, weight, load(sums, s.sumAt(run))), Name: "weighted"},
	}
	k.Stores = slices.Clone(s.k.Stores)
	for i := range k.Stores {
		k.Stores[i].PerElement = false // the elements of a result are rows of their own here
	}
	k.Bindings = s.bindings(&k, scratch)
	return &k
}

// bindings are those of the whole kernel, used as the part uses them, and the
// scratch buffers. What no load or store names, such as the values of symbols,
// stays as it was.
func (s splitter) bindings(k *Kernel, scratch []Scratch) []Binding {
	list := slices.Clone(s.k.Bindings)
	for i, c := range scratch {
		list = append(list, Binding{Name: c.Name, DType: c.Type.DType, Buffer: s.buffers[i], Elems: c.Type.Shape.MaxElems()})
	}
	touched := func(k *Kernel) (read, written map[int]bool) {
		read, written = map[int]bool{}, map[int]bool{}
		Walk(k.Roots(), func(e *Expr) {
			if e.Kind == ExprLoad {
				read[e.Bind] = true
			}
		})
		for _, st := range k.Stores {
			written[st.Bind] = true
		}
		return read, written
	}
	read, written := touched(k)
	wasRead, wasWritten := touched(s.k)
	for i := range list {
		if i >= len(s.k.Bindings) || wasRead[i] || wasWritten[i] {
			list[i].Read, list[i].Write = read[i], written[i]
		}
	}
	return list
}
