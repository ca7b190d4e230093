package kernel

import "github.com/vkc-go/vkc/ir"

// Rewriter translates expressions of one kernel to expressions of another kernel, which its builder makes.
type Rewriter struct {
	// Builder makes the new expressions.
	Builder *Builder
	// Bind, if set, returns the new number of a load's binding.
	Bind func(bind int) int
	// Load, if set, returns the value that replaces a load, or nil to keep the load.
	Load func(e *Expr) *Expr
	// Acc, if set, returns the value that replaces the result of a phase or matmul.
	Acc func(e *Expr) *Expr

	at   func(axis int, extent ir.Dim) Index // returns an old axis as an index over the new axes
	done map[*Expr]*Expr                     // the translations so far
}

// NewRewriter returns a rewriter that replaces every axis by the index that at returns.
func NewRewriter(at func(axis int, extent ir.Dim) Index) *Rewriter {
	return &Rewriter{Builder: NewBuilder(), at: at, done: map[*Expr]*Expr{}}
}

// Index translates an index to the new kernel's axes.
func (r *Rewriter) Index(x Index) Index { return x.Substitute(r.at, r.Value) }

// Value translates an expression.
func (r *Rewriter) Value(v *Expr) *Expr {
	if have, ok := r.done[v]; ok {
		return have
	}
	out := r.rebuild(v)
	if out.Hint == "" {
		out.Hint = v.Hint
	}
	r.done[v] = out
	return out
}

// orNil rewrites an expression that may be nil, as Value does otherwise.
func (r *Rewriter) orNil(v *Expr) *Expr {
	if v == nil {
		return nil
	}
	return r.Value(v)
}

// rebuild returns expression v with its arguments, indices and bindings rewritten by the functions of r.
func (r *Rewriter) rebuild(v *Expr) *Expr {
	switch v.Kind {
	case ExprLoad:
		if r.Load != nil {
			if e := r.Load(v); e != nil {
				return e
			}
		}
		bind := v.Bind
		if r.Bind != nil {
			bind = r.Bind(bind)
		}
		return r.Builder.Load(bind, v.DType, r.Index(v.Index), v.Hint)
	case ExprIndex:
		return r.Builder.FromIndex(r.Index(v.Index))
	case ExprRandom:
		return r.Builder.Random(r.Value(v.Args[0]), r.Value(v.Args[1]), r.Index(v.Index), v.Word)
	case ExprAcc:
		if r.Acc != nil {
			return r.Acc(v)
		}
		if v.Other {
			return r.Builder.accOf(v.Acc, v.DType, r.Index(v.Index), v.Hint)
		}
		return r.Builder.Acc(v.Acc, v.DType, v.Hint)
	case ExprApply:
		args := make([]*Expr, len(v.Args))
		for i, a := range v.Args {
			args[i] = r.Value(a)
		}
		return r.Builder.Apply(v.Op, v.DType, v.Attrs, args...)
	}
	if v.DType.IsFloat() { // a constant
		return r.Builder.Float(v.DType, v.Value)
	}
	return r.Builder.Integer(v.DType, v.Int)
}
