package optest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/ir"
)

// A Case is one use of an op on given values.
type Case struct {
	Op    ir.Op
	DType ir.DType // of the op's main argument, or of its result if it has none
	// Name identifies the case: the op, the dtype, and its variant, such as add/f32/13x17/transposed.
	Name  string
	Smoke bool // one of the few cases per op in a quick run
	// Exact means that the result must have the reference's bits, regardless of the tolerances of its ops.
	Exact bool

	build func(b *builder, t ir.DType) *ir.Node
}

// String returns the case's name.
func (c Case) String() string { return c.Name }

// template is a case before its dtype is chosen.
type template struct {
	op   ir.Op
	name string
	// broad requests a case for every dtype that the op supports. Otherwise only the first such dtype has a case.
	broad bool
	// smoke puts the first case into quick runs.
	smoke bool
	// exact requires the reference's bits.
	exact bool
	// types are the dtypes to try; nil means all except block formats.
	types []ir.DType
	// mayBeRefused means that the op's rule may reject the case for every dtype.
	mayBeRefused bool
	build        func(b *builder, t ir.DType) *ir.Node
}

// preferred lists the dtypes in order of preference for quick runs.
var preferred = []ir.DType{ir.F32, ir.I32, ir.U32, ir.Bool, ir.F16, ir.BF16, ir.I8, ir.U8, ir.I64, ir.F64,
	ir.F8E4M3, ir.I16, ir.U16, ir.F8E5M2, ir.I4, ir.U4, ir.I2, ir.U2, ir.F4E2M1, ir.F8E4M3FNUZ, ir.F8E5M2FNUZ,
	ir.F8E8M0}

// Cases returns all cases, in the order of the op table. Do not modify.
func Cases() []Case { return allCases() }

var allCases = sync.OnceValue(func() []Case {
	var list []Case
	for _, t := range templates() {
		list = append(list, t.cases()...)
	}
	slices.SortStableFunc(list, func(a, b Case) int {
		if a.Op != b.Op {
			return int(a.Op) - int(b.Op)
		}
		return slices.Index(preferred, a.DType) - slices.Index(preferred, b.DType)
	})
	return list
})

// templates returns the templates of all ops.
func templates() []template {
	var s suite
	s.leaves()
	s.elementwise()
	s.views()
	s.reductions()
	s.scans()
	s.rows()
	s.contractions()
	s.windows()
	s.indexing()
	s.blocks()
	s.scatters()
	s.recurrences()
	s.random()
	s.composites()
	s.linear()
	s.control()
	s.commonCases()
	return s.list
}

// cases returns the template's cases: one per dtype that the op supports.
func (t template) cases() []Case {
	types := t.types
	if types == nil {
		types = preferred
	}
	var list []Case
	for _, dt := range types {
		if !t.accepts(dt) {
			continue
		}
		name := fmt.Sprintf("%s/%s/%s", t.op, dt, t.name)
		// Only the first dtype is a smoke test.
		list = append(list, Case{t.op, dt, name, t.smoke && len(list) == 0, t.exact, t.build})
		if !t.broad {
			break
		}
	}
	return list
}

// accepts reports whether the op's rule accepts the template's arguments with main dtype dt.
func (t template) accepts(dt ir.DType) bool {
	b := newBuilder(ir.NewGraph(""), "", "")
	b.typesOnly = true
	t.build(b, dt)
	return b.err == nil
}

// suite collects the templates of all ops.
type suite struct{ list []template }

type buildFunc = func(b *builder, t ir.DType) *ir.Node

// add adds a template. Without further calls it gives one case, with one dtype.
func (s *suite) add(op ir.Op, name string, f buildFunc) *template {
	s.list = append(s.list, template{op: op, name: name, build: f})
	return &s.list[len(s.list)-1]
}

// allDTypes requests a case for every dtype that the op supports.
func (t *template) allDTypes() *template { t.broad = true; return t }

// inSmokeTest puts the template's first case into quick runs.
func (t *template) inSmokeTest() *template { t.smoke = true; return t }

// bitExact requires a template's results to have the reference's bits.
func (t *template) bitExact() *template { t.exact = true; return t }

// unary adds a template for an op of one argument.
func (s *suite) unary(op ir.Op, name string, dims []int, l layout, v values, attrs ...ir.Attr) *template {
	if name != "" {
		name += "/"
	}
	return s.add(op, name+label(dims, l, v), func(b *builder, t ir.DType) *ir.Node {
		return b.view(op, b.arg(t, dims, l, v), attrs...)
	})
}

// label describes shape, layout and values in a case's name. In names, sparse values are "special", because some are
// infinite or NaN. full ones are "limits", because most are near the limits of the dtype or 0.
func label(dims []int, l layout, v values) string {
	parts := []string{shapeName(dims)}
	if l != plain {
		parts = append(parts, layoutNames[l])
	}
	switch v {
	case sparse:
		parts = append(parts, "special")
	case extreme:
		parts = append(parts, "extreme")
	case full:
		parts = append(parts, "limits")
	}
	return strings.Join(parts, "/")
}

// shapeName formats a shape for a case's name, such as 13x17.
func shapeName(dims []int) string {
	if len(dims) == 0 {
		return "scalar"
	}
	s := make([]string, len(dims))
	for i, d := range dims {
		s[i] = fmt.Sprint(d)
	}
	return strings.Join(s, "x")
}

// argShapes are argument shapes for most ops: every rank, extents of 0 and 1, primes, and extents larger than a
// workgroup or a tile.
var argShapes = [][]int{{}, {0}, {1}, {7}, {1031}, {3, 5}, {4, 0}, {67, 129}, {2, 3, 5}, {2, 1, 3, 5}, {2, 3, 1, 2, 3},
	{2, 1, 2, 3, 2, 5}}
