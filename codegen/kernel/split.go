package kernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Scratch is a temporary buffer that passes results from the first part of a split kernel to the second.
type Scratch struct {
	Name string
	Type ir.Type
}

// SplitAttention splits an attention kernel in two, for attentions with too few rows to occupy a device. It divides the
// keys into the given number of runs. The first kernel, partial, processes the runs in parallel and stores the results
// of each run. The second, combine, is a row kernel that joins the runs and performs the stores. The results pass
// through scratch buffers; buffer returns the buffer number for each.
func SplitAttention(k *Kernel, splits int, buffer func(Scratch) int) (partial, combine *Kernel, err error) {
	if err := k.CheckAttention(); err != nil {
		return nil, nil, err
	}
	ax := k.AttentionAxes()
	if splits < 2 || !k.Parallel[ax.Split].Is(1) {
		return nil, nil, fmt.Errorf("kernel: %s cannot be split into %d", k.Name, splits)
	}
	runs := ir.D(splits)
	rows := k.Parallel[1:ax.Value] // all axes between the split and the elements of a result
	value := k.Parallel[ax.Value]
	scratch := []Scratch{
		{"partial sums", ir.Type{DType: ir.F32, Shape: slices.Concat(rows, []ir.Dim{runs, value})}},
		{"partial weights", ir.Type{DType: ir.F32, Shape: slices.Concat(rows, []ir.Dim{runs, ir.D(2)})}},
	}
	s := splitter{k: k, row: Linear(rows, Axes(k.Parallel)[1:ax.Value]), runs: runs, value: value}
	for _, c := range scratch {
		s.buffers = append(s.buffers, buffer(c))
	}
	return s.partial(scratch), s.combine(scratch), nil
}

// splitter makes the two kernels of SplitAttention.
type splitter struct {
	k           *Kernel
	row         Index
	runs, value ir.Dim
	buffers     []int // of the scratch
}

// sumAt is the index, in the first scratch buffer, of a run's weighted sum of values.
func (s splitter) sumAt(run Index) Index {
	e := Axis(s.k.AttentionAxes().Value, s.value)
	return s.row.Mul(DimIndex(s.runs)).Plus(run).Mul(DimIndex(s.value)).Plus(e)
}

// statAt is the index, in the second scratch buffer, of a run's largest score (which is 0) or sum of weights (1).
func (s splitter) statAt(run Index, which int64) Index {
	return s.row.Mul(DimIndex(s.runs)).Plus(run).Times(2).Plus(Const(which))
}

// partial returns the first of the two kernels: the attention over each run of keys. For each row and run, it stores
// the weighted sum of values in the first scratch buffer, and the largest score and the sum of weights in the second.
func (s splitter) partial(scratch []Scratch) *Kernel {
	ax := s.k.AttentionAxes()
	parallel := slices.Clone(s.k.Parallel)
	parallel[ax.Split] = s.runs
	run := Axis(ax.Split, s.runs)
	return Map(s.k, Edit{Name: s.k.Name + "_split", Parallel: parallel, Stores: func(m *Mapping) []Store {
		binds := s.bind(m, scratch, Binding{Write: true})
		// The attention's results are 0, the largest score, 1, the sum of weights, and 2, the weighted sum of values.
		return []Store{
			{Bind: binds[0], Index: s.sumAt(run), Value: m.Builder.Acc(2, ir.F32, "weighted"), PerElement: true},
			{Bind: binds[1], Index: s.statAt(run, 0), Value: m.Builder.Acc(0, ir.F32, "top")},
			{Bind: binds[1], Index: s.statAt(run, 1), Value: m.Builder.Acc(1, ir.F32, "sum")},
		}
	}})
}

// combine returns the second kernel, which joins the runs. It has the axes of the whole attention, so its stores are
// the attention's. Only the key axis counts runs instead of keys.
func (s splitter) combine(scratch []Scratch) *Kernel {
	run := Axis(s.k.AttentionAxes().Key, s.runs)
	return Map(s.k, Edit{Name: s.k.Name + "_join", Family: FamilyRow, Fold: s.runs,
		Phases: func(m *Mapping) []Phase {
			binds := s.bind(m, scratch, Binding{Read: true})
			load := func(i int, x Index) *Expr { return m.Builder.Load(binds[i], ir.F32, x, scratch[i].Name) }
			f32 := func(op ir.Op, args ...*Expr) *Expr { return m.Builder.Apply(op, ir.F32, nil, args...) }
			top, best := load(1, s.statAt(run, 0)), m.Builder.Acc(0, ir.F32, "top")
			if slices.ContainsFunc(s.k.Stores, func(st Store) bool { return st.Value.UsesAcc(0) }) {
				// If a row sees no key, the results must still be numbers, not NaN. Any finite number may then replace
				// the largest score, -Inf.
				none := m.Builder.Apply(ir.OpEq, ir.Bool, nil, best, m.Builder.Float(ir.F32, math.Inf(-1)))
				best = f32(ir.OpWhere, none, m.Builder.Float(ir.F32, 0), best)
			}
			weight := f32(ir.OpExp2, f32(ir.OpSub, top, best))
			weight.Hint = "weight"
			return []Phase{
				{Combine: CombineMax, Value: top, Name: "top"},
				{Combine: CombineSum, Value: f32(ir.OpMul, weight, load(1, s.statAt(run, 1))), Name: "sum"},
				{Combine: CombineSum, Value: f32(ir.OpMul, weight, load(0, s.sumAt(run))), Name: "weighted"},
			}
		},
		Stores: func(m *Mapping) []Store {
			stores := m.Stores()
			for i := range stores {
				stores[i].PerElement = false // this kernel has a row for each element of a result
			}
			return stores
		},
	})
}

// bind adds the scratch buffers to the kernel as bindings like b, which says whether it reads or writes them.
func (s splitter) bind(m *Mapping, scratch []Scratch, b Binding) (binds []int) {
	for i, c := range scratch {
		b.Name, b.DType, b.Buffer, b.Elems = c.Name, c.Type.DType, s.buffers[i], c.Type.Shape.MaxElems()
		binds = append(binds, m.Bind(b))
	}
	return binds
}
