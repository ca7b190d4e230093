package kernel

import (
	"cmp"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// Edit describes how [Map] changes a kernel. A zero field keeps the kernel's own value.
type Edit struct {
	Name string
	Ops  []string
	// Family, if set, changes the family. The new kernel then has only the parts that the edit has a function for.
	Family   Family
	Parallel []ir.Dim
	Fold     ir.Dim
	// At returns an axis of the old kernel as an index over the new kernel's axes.
	At func(axis int, extent ir.Dim) Index
	// SameBindings keeps all bindings, used or not, in their order, so that a program can run the new kernel in place
	// of the old.
	SameBindings bool
	// MatMuls, Phases, Attention, Guard and Stores return these parts of the new kernel. Map calls them in this order.
	// Each may change how the Mapping rewrites buffers, loads and results for later parts.
	MatMuls   func(m *Mapping) []MatMul
	Phases    func(m *Mapping) []Phase
	Attention func(m *Mapping) *Attention
	Guard     func(m *Mapping) *Guard
	Stores    func(m *Mapping) []Store
}

// Map returns a kernel that is k changed by e. It rewrites every expression, and binds buffers in the order in which
// the new kernel uses them. Custom kernels and loops keep their bindings.
func Map(k *Kernel, e Edit) *Kernel {
	at := e.At
	if at == nil {
		at = Axis
	}
	to := *k
	// A kernel of another family takes over nothing else. A map has no fold axis.
	if e.Family != "" {
		to = Kernel{Family: e.Family}
		if e.Family != FamilyMap {
			to.Fold = k.Fold
		}
	}
	m := newMapping(k, &to, NewBuilder(), at)
	to.Bindings = nil // mapping an expression adds the bindings that it uses
	if e.SameBindings || to.Custom != nil || to.Loop != nil {
		to.Bindings, m.Rewriter.Bind = slices.Clone(k.Bindings), nil // then no binding is added
	}
	to.Name = cmp.Or(e.Name, k.Name)
	to.Fold = cmp.Or(e.Fold, to.Fold)
	to.Ops, to.Parallel = k.Ops, k.Parallel
	if e.Ops != nil {
		to.Ops = e.Ops
	}
	if e.Parallel != nil {
		to.Parallel = e.Parallel
	}
	to.MatMuls = edited(m, to.MatMuls, e.MatMuls, m.MatMul)
	to.Phases = edited(m, to.Phases, e.Phases, m.Phase)
	if e.Attention != nil {
		to.Attention = e.Attention(m)
	} else {
		to.Attention = m.Attention(to.Attention)
	}
	to.Recurrence = changed(to.Recurrence, func(r *Recurrence) {
		r.State, r.Decay, r.Q, r.K, r.V = m.Value(r.State), m.Value(r.Decay), m.Value(r.Q), m.Value(r.K), m.Value(r.V)
		r.A, r.B = m.orNil(r.A), m.orNil(r.B)
	})
	to.Limit = changed(to.Limit, func(l *Limit) { l.At = m.Index(l.At) })
	to.Group = changed(to.Group, func(g *Group) { g.Of, g.Bind = m.Index(g.Of), m.write(g.Bind) })
	if e.Guard != nil {
		to.Guard = e.Guard(m)
	} else {
		to.Guard = changed(to.Guard, func(g *Guard) {
			g.Point, g.Batch, g.Row, g.Col = m.orNil(g.Point), m.orNil(g.Batch), m.orNil(g.Row), m.orNil(g.Col)
		})
	}
	to.Fault = changed(to.Fault, func(f *Fault) { f.Index, f.Bind = m.Index(f.Index), m.write(f.Bind) })
	to.Stores = edited(m, to.Stores, e.Stores, m.Store)
	for _, part := range *m.parts {
		part.bindImplied()
	}
	to.After = m.waitsFor()
	return &to
}

// waitsFor returns the values that the kernels of all parts wait for.
func (m *Mapping) waitsFor() (after []int) {
	for _, part := range *m.parts {
		after = append(after, part.From.After...)
	}
	slices.Sort(after)
	return slices.Compact(after)
}

// edited returns a list of parts of the new kernel: the edit's result, or the old list with each part rewritten.
func edited[T any](m *Mapping, list []T, edit func(*Mapping) []T, rewrite func(T) T) []T {
	if edit != nil {
		return edit(m)
	}
	return rewritten(list, rewrite)
}

// rewritten returns a list with each part rewritten.
func rewritten[T any](list []T, rewrite func(T) T) []T {
	var out []T
	for _, x := range list {
		out = append(out, rewrite(x))
	}
	return out
}

// Mapping rewrites parts of one kernel for another, and adds bindings to the new kernel as needed.
type Mapping struct {
	*Rewriter
	From, To *Kernel
	// Rebind, if set, returns the new binding for a binding of the old kernel.
	Rebind func(bind int, b Binding) Binding

	bound map[int]int // the binding of To for each binding of From that was bound already
	parts *[]*Mapping // all mappings that share To
}

// newMapping returns a mapping that makes expressions with b. at returns an axis of from as an index over to's axes.
func newMapping(from, to *Kernel, b *Builder, at func(axis int, extent ir.Dim) Index) *Mapping {
	m := &Mapping{Rewriter: NewRewriter(at), From: from, To: to, bound: map[int]int{}}
	m.Builder, m.Rewriter.Bind = b, m.read
	m.parts = &[]*Mapping{m}
	return m
}

// Part returns a mapping of another kernel into the same new kernel. It may also map the same kernel at other axes.
func (m *Mapping) Part(from *Kernel, at func(axis int, extent ir.Dim) Index) *Mapping {
	part := newMapping(from, m.To, m.Builder, at)
	part.parts = m.parts
	*m.parts = append(*m.parts, part)
	return part
}

// Bind adds a binding to the new kernel, and returns its number.
func (m *Mapping) Bind(b Binding) int {
	m.To.Bindings = append(m.To.Bindings, b)
	return len(m.To.Bindings) - 1
}

// MatMul rewrites a matmul for the new kernel.
func (m *Mapping) MatMul(p MatMul) MatMul {
	p.A, p.B = m.Value(p.A), m.Value(p.B)
	return p
}

// Phase rewrites a phase for the new kernel.
func (m *Mapping) Phase(p Phase) Phase {
	p.Value = m.Value(p.Value)
	return p
}

// Attention rewrites an attention for the new kernel; nil stays nil.
func (m *Mapping) Attention(a *Attention) *Attention {
	return changed(a, func(a *Attention) {
		a.Q, a.K, a.V, a.Mask = m.Value(a.Q), m.Value(a.K), m.Value(a.V), m.orNil(a.Mask)
		a.Factor = changed(a.Factor, func(f *AttentionFactor) {
			f.Q, f.K, f.Delta = m.Value(f.Q), m.Value(f.K), m.Value(f.Delta)
		})
		a.End = changed(a.End, func(end *Index) { *end = m.Index(*end) })
	})
}

// changed returns a copy of a part of a kernel that a function has changed; nil stays nil.
func changed[T any](part *T, change func(*T)) *T {
	if part == nil {
		return nil
	}
	out := *part
	change(&out)
	return &out
}

// Store rewrites a store for the new kernel. The store writes the same buffer as before.
func (m *Mapping) Store(s Store) Store {
	s.Index, s.Value, s.Where, s.Bind = m.Index(s.Index), m.Value(s.Value), m.orNil(s.Where), m.write(s.Bind)
	return s
}

// Stores rewrites all stores of the old kernel.
func (m *Mapping) Stores() []Store { return rewritten(m.From.Stores, m.Store) }

// use returns the new kernel's binding of the buffer that the old kernel has at binding number bind (see Rebind). It
// adds the binding if there is none.
func (m *Mapping) use(bind int) *Binding {
	i, ok := m.bound[bind]
	if !ok {
		b := m.From.Bindings[bind]
		if m.Rebind != nil {
			b = m.Rebind(bind, b)
		}
		i = slices.IndexFunc(m.To.Bindings, func(have Binding) bool { return have.Buffer == b.Buffer })
		if i < 0 {
			b.Read, b.Write = false, false // set by the accesses that are mapped
			i = m.Bind(b)
		}
		m.bound[bind] = i
	}
	return &m.To.Bindings[i]
}

// read returns the new kernel's binding for a buffer that it reads.
func (m *Mapping) read(bind int) int {
	m.use(bind).Read = true
	return m.bound[bind]
}

// write returns the new kernel's binding for a buffer that it writes.
func (m *Mapping) write(bind int) int {
	if m.Rewriter.Bind == nil {
		return bind // all are bound already
	}
	m.use(bind).Write = true
	return m.bound[bind]
}

// bindImplied adds bindings that the kernel reads without a load: the values of symbols, and the codebooks of its
// operands.
func (m *Mapping) bindImplied() {
	if m.Rewriter.Bind == nil {
		return // all are bound already
	}
	used := map[ir.DType]bool{}
	for _, b := range m.To.Bindings {
		used[b.DType] = true
	}
	for i, b := range m.From.Bindings {
		if b.Params && len(m.To.Symbols()) > 0 || b.Codebook != ir.Invalid && used[b.Codebook] {
			m.read(i)
		}
	}
}
