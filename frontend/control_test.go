package frontend_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// runOnce computes a graph by the reference.
func runOnce(t *testing.T, in map[string]*ir.Data, define func(b *frontend.Builder)) map[string]*ir.Data {
	t.Helper()
	g, err := frontend.Build("control", define)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ir.Parse(g.String())
	if err != nil || again.HashString() != g.HashString() {
		t.Fatalf("text: %v\n%s", err, g)
	}
	text, err := g.MarshalJSONText()
	if err != nil {
		t.Fatal(err)
	}
	if again, err = ir.ReadJSON("g.json", text); err != nil || again.HashString() != g.HashString() {
		t.Fatalf("json: %v\n%s", err, text)
	}
	p, err := interp.New(again, interp.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.Run(context.Background(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func floats(values ...float64) *ir.Data {
	d, _ := ir.NewData(ir.F32, len(values))
	ir.EncodeFloats(d.Bytes, ir.F32, values)
	return d
}

func wantFloats(t *testing.T, what string, d *ir.Data, want ...float64) {
	t.Helper()
	got := make([]float64, d.Elems())
	ir.DecodeFloats(got, d.DType, d.Bytes)
	if len(got) != len(want) {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s is %v, want %v", what, got, want)
		}
	}
}

func TestLoops(t *testing.T) {
	out := runOnce(t, map[string]*ir.Data{"x": floats(1, 2, 3)}, func(b *frontend.Builder) {
		n := b.Sym("N", 8)
		x := b.Input("x", ir.F32, n)
		fib := b.Loop(10, []frontend.Tensor{b.Const(float32(0)), b.Const(float32(1))},
			func(i frontend.Tensor, c []frontend.Tensor) []frontend.Tensor {
				return []frontend.Tensor{c[1], c[0].Add(c[1])}
			})
		b.Output("fib", fib[0])
		// Doubled until the sum is over 100, with a loop inside that adds up.
		sum := func(v frontend.Tensor) frontend.Tensor {
			last, _ := b.Scan([]frontend.Tensor{b.Const(float32(0))}, []frontend.Tensor{v},
				func(c, at []frontend.Tensor) (next, outs []frontend.Tensor) {
					return []frontend.Tensor{c[0].Add(at[0])}, nil
				})
			return last[0]
		}
		big := b.While(50, []frontend.Tensor{x}, func(c []frontend.Tensor) frontend.Tensor {
			return sum(c[0]).Le(b.Const(float32(100)))
		}, func(c []frontend.Tensor) []frontend.Tensor { return []frontend.Tensor{c[0].Add(c[0])} })
		b.Output("big", big[0])
		last, sums := b.Scan([]frontend.Tensor{b.Const(float32(0))}, []frontend.Tensor{x},
			func(c, at []frontend.Tensor) (next, outs []frontend.Tensor) {
				s := c[0].Add(at[0])
				return []frontend.Tensor{s}, []frontend.Tensor{s}
			})
		b.Output("last", last[0])
		b.Output("sums", sums[0])
		_, back := b.ScanBack([]frontend.Tensor{b.Const(float32(0))}, []frontend.Tensor{x},
			func(c, at []frontend.Tensor) (next, outs []frontend.Tensor) {
				s := c[0].Add(at[0])
				return []frontend.Tensor{s}, []frontend.Tensor{s}
			})
		b.Output("back", back[0])
		one := b.Const(float32(1))
		branches := b.If(last[0].Gt(b.Const(float32(5))), func() []frontend.Tensor {
			return []frontend.Tensor{x.Add(one), x}
		}, func() []frontend.Tensor { return []frontend.Tensor{x, x.Neg()} })
		b.Output("then", branches[0])
		b.Output("else", b.If(last[0].Gt(b.Const(float32(6))), func() []frontend.Tensor { return []frontend.Tensor{x} },
			func() []frontend.Tensor { return []frontend.Tensor{x.Neg().Mul(fib[0])} })[0])
		b.Output("never", b.While(5, []frontend.Tensor{x}, func(c []frontend.Tensor) frontend.Tensor {
			return c[0].Sum().Lt(b.Const(float32(0)))
		}, func(c []frontend.Tensor) []frontend.Tensor { return []frontend.Tensor{c[0].Add(c[0])} })[0])
	})
	wantFloats(t, "fib", out["fib"], 55)
	wantFloats(t, "big", out["big"], 32, 64, 96)
	wantFloats(t, "last", out["last"], 6)
	wantFloats(t, "sums", out["sums"], 1, 3, 6)
	wantFloats(t, "back", out["back"], 6, 5, 3)
	wantFloats(t, "then", out["then"], 2, 3, 4)
	wantFloats(t, "else", out["else"], -55, -110, -165)
	wantFloats(t, "never", out["never"], 1, 2, 3)
}

// TestScanWhile doubles a number until it reaches an input limit, and outputs each value. The remaining outputs are
// zeros.
func TestScanWhile(t *testing.T) {
	for limit, want := range map[float64][]float64{10: {2, 4, 8, 16, 0}, 1e9: {2, 4, 8, 16, 32}, 0: {0, 0, 0, 0, 0}} {
		out := runOnce(t, map[string]*ir.Data{"limit": floats(limit)}, func(b *frontend.Builder) {
			limit := b.Input("limit", ir.F32, 1).Reshape()
			one := b.Const(float32(1))
			s := b.ScanWhile(5, one.Lt(limit), []frontend.Tensor{one},
				func(i frontend.Tensor, c []frontend.Tensor) (frontend.Tensor, []frontend.Tensor, []frontend.Tensor) {
					next := c[0].Add(c[0])
					return next.Lt(limit), []frontend.Tensor{next}, []frontend.Tensor{next}
				})
			b.Output("all", s.Stacks[0])
			b.Output("last", s.Last[0].Reshape(1))
			b.Output("count", s.Count.Cast(ir.F32).Reshape(1))
			b.Output("goes", s.Goes.Cast(ir.F32).Reshape(1))
		})
		count, last, goes := 0.0, 1.0, 0.0
		for _, v := range want {
			if v > 0 {
				count, last = count+1, v
			}
		}
		if limit > 1e6 {
			goes = 1
		}
		wantFloats(t, "all", out["all"], want...)
		wantFloats(t, "last", out["last"], last)
		wantFloats(t, "count", out["count"], count)
		wantFloats(t, "goes", out["goes"], goes)
	}
}

// TestLoopOverAQuotient loops over every second element. The number of trips is derived from a symbol.
func TestLoopOverAQuotient(t *testing.T) {
	out := runOnce(t, map[string]*ir.Data{"x": floats(1, 2, 3, 4, 5)}, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, b.Sym("N", 8))
		half := x.SliceStep(0, 0, x.Dim(0), 2)
		add := func(c, at []frontend.Tensor) (next, outs []frontend.Tensor) {
			s := c[0].Add(at[0])
			return []frontend.Tensor{s}, []frontend.Tensor{s.Mul(half.Sum())}
		}
		last, sums := b.ScanBack([]frontend.Tensor{b.Const(float32(0))}, []frontend.Tensor{half}, add)
		b.Output("last", last[0].Reshape(1))
		b.Output("sums", sums[0])
		large := last[0].Gt(b.Const(float32(1)))
		b.Output("branch", b.If(large, func() []frontend.Tensor { return []frontend.Tensor{half} },
			func() []frontend.Tensor { return []frontend.Tensor{half.Neg()} })[0])
	})
	wantFloats(t, "last", out["last"], 9)
	wantFloats(t, "sums", out["sums"], 81, 72, 45)
	wantFloats(t, "branch", out["branch"], 1, 3, 5)
}

// TestAfterAnError builds on where the function for a body has failed, as who recovers from it does.
func TestAfterAnError(t *testing.T) {
	out := runOnce(t, map[string]*ir.Data{"x": floats(1)}, func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 1)
		var inside frontend.Tensor
		func() {
			defer func() { _ = recover() }()
			b.Loop(2, []frontend.Tensor{x}, func(i frontend.Tensor, c []frontend.Tensor) []frontend.Tensor {
				inside = c[0].Neg()
				b.Fail("loop", errors.New("it is wrong"))
				return nil
			})
		}()
		if !b.Sees(x) || b.Sees(inside) {
			t.Error("a tensor of the body that failed can be used, or one of the graph cannot")
		}
		b.Output("y", x.Add(x))
	})
	wantFloats(t, "y", out["y"], 2)
}

func TestControlErrors(t *testing.T) {
	type tensors = []frontend.Tensor
	for want, define := range map[string]func(b *frontend.Builder){
		"then gives f32[3], and else bool[3]": func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 3)
			b.If(b.Const(true), func() tensors { return tensors{x} }, func() tensors { return tensors{x.IsNaN()} })
		},
		"the function for else returns no tensors": func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 3)
			b.If(b.Const(true), func() tensors { return tensors{x} }, func() tensors { return nil })
		},
		"carried[0] is f32[3] at first, and f32[1] after a trip: want the same type": func(b *frontend.Builder) {
			b.Loop(3, tensors{b.Input("x", ir.F32, 3)}, func(i frontend.Tensor, c tensors) tensors {
				return tensors{c[0].Slice(0, 0, 1)}
			})
		},
		"the condition is bool[] at first, and bool[3] after a trip: want the same type": func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 3)
			b.ScanWhile(ir.D(3), b.Const(true), tensors{x}, func(_ frontend.Tensor, c tensors) (
				frontend.Tensor, tensors, tensors) {
				return c[0].IsNaN(), c, nil
			})
		},
		"returns 0 tensors, and the loop carries 1": func(b *frontend.Builder) {
			b.Loop(3, tensors{b.Input("x", ir.F32, 3)}, func(i frontend.Tensor, c tensors) tensors { return nil })
		},
		`operand 0, state "x", was made in the body of a loop or branch, and cannot be used outside`: func(b *frontend.Builder) {
			var kept frontend.Tensor
			b.Loop(3, tensors{b.Input("x", ir.F32, 3)}, func(i frontend.Tensor, c tensors) tensors {
				kept = c[0]
				return c
			})
			b.Output("y", kept)
		},
		"want one extent of all outermost axes": func(b *frontend.Builder) {
			b.Scan(nil, tensors{b.Input("x", ir.F32, 3), b.Input("y", ir.F32, 4)},
				func(c, x tensors) (next, outs tensors) { return nil, x })
		},
		"more than 8 deep": func(b *frontend.Builder) {
			x := b.Input("x", ir.F32, 3)
			var nest func(depth int) tensors
			nest = func(depth int) tensors {
				if depth == 0 {
					return tensors{x.Neg()}
				}
				return b.If(b.Const(true), func() tensors { return nest(depth - 1) },
					func() tensors { return tensors{x} })
			}
			b.Output("y", nest(9)[0])
		},
	} {
		_, err := frontend.Build("control", define)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
