package lower_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/passes/lower"
)

// numbered joins the results of line for 0 to n-1.
func numbered(n int, line func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i) + "\n")
	}
	return b.String()
}

// inputs declares inputs x0, x1, … of a shape.
func inputs(n int, shape string) string {
	return numbered(n, func(i int) string {
		return fmt.Sprintf(`%%x%d = input {name="x%d", dtype=f32, shape=[%s]}`, i, i, shape)
	})
}

// list is "%x0, %x1, …".
func list(n int, name string) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%%%s%d", name, i)
	}
	return strings.Join(names, ", ")
}

// sumOf adds up x0 to x(n-1), as %s(n-1).
func sumOf(n int) string {
	return "%s0 = abs %x0\n" + numbered(n-1, func(i int) string {
		return fmt.Sprintf("%%s%d = add %%s%d, %%x%d", i+1, i, i+1)
	})
}

// manyOperands are graphs with more tensors, in one op or several together, than a kernel can bind.
func manyOperands(n int) map[string]string {
	last := fmt.Sprintf("%%s%d", n-1)
	return map[string]string{
		"concat":               inputs(n, "3,2") + "%c = concat " + list(n, "x") + " {axis=1}\noutput \"o\" %c",
		"concat, symbolic":     "symbol T <= 4\n" + inputs(n, "T,2") + "%c = concat " + list(n, "x") + " {axis=1}\noutput \"o\" %c",
		"concat of symbols":    "symbol T <= 4\n%t = input {name=\"t\", dtype=f32, shape=[T]}\n" + inputs(n, "2") + "%c = concat %t, " + list(n, "x") + ", %t {axis=0}\noutput \"o\" %c",
		"concat amid others":   inputs(n, "3,2") + "%c = concat " + list(n, "x") + " {axis=0}\n%e = exp %c\n%f = sum %e {axes=[1]}\noutput \"o\" %f",
		"concat twice":         inputs(n, "3,2") + "%c = concat " + list(n, "x") + " {axis=0}\n%e = neg %c\n%f = mul %c, %e\noutput \"o\" %f\noutput \"c\" %c",
		"concat of computed":   inputs(n, "3,2") + numbered(n, func(i int) string { return fmt.Sprintf("%%e%d = exp %%x%d", i, i) }) + "%c = concat " + list(n, "e") + " {axis=1}\noutput \"o\" %c",
		"concat of one tensor": inputs(1, "3,2") + numbered(n, func(i int) string { return fmt.Sprintf("%%e%d = affine %%x0 {mul=%d.0}", i, i) }) + "%c = concat " + list(n, "e") + " {axis=1}\noutput \"o\" %c",
		"concat into a state":  fmt.Sprintf("%%s = state {name=\"s\", dtype=f32, shape=[%d]}\n", 2*n+2) + inputs(n, "2") + fmt.Sprintf("%%l = slice %%s {starts=[%d], limits=[%d]}\n", 2*n, 2*n+2) + "%c = concat %l, " + list(n, "x") + " {axis=0}\nupdate %s = %c",
		"concat of weights":    numbered(n, func(i int) string { return fmt.Sprintf(`%%x%d = weight {name="x%d", dtype=q8_0, shape=[3,32]}`, i, i) }) + numbered(n, func(i int) string { return fmt.Sprintf("%%e%d = dequantize %%x%d {dtype=f32}", i, i) }) + "%c = concat " + list(n, "e") + " {axis=1}\noutput \"o\" %c",
		"concat of packed blocks": numbered(n, func(i int) string {
			return fmt.Sprintf(`%%x%d = weight {name="x%d", dtype=iq4_nl, shape=[2,32]}`, i, i)
		}) + "%c = concat " + list(n, "x") + " {axis=0}\n%d = dequantize %c {dtype=f32}\noutput \"o\" %d",
		"sum":                  inputs(n, "3,2") + sumOf(n) + "output \"o\" " + last,
		"sum of broadcasts":    inputs(n, "2") + "%y = input {name=\"y\", dtype=f32, shape=[3,2]}\n" + sumOf(n) + "%z = mul %y, " + last + "\noutput \"o\" %z",
		"before softmax":       inputs(n, "3,2") + sumOf(n) + "%o = softmax " + last + " {axis=1}\noutput \"o\" %o",
		"after softmax":        inputs(n, "3,2") + "%s0 = softmax %x0 {axis=1}\n" + numbered(n-1, func(i int) string { return fmt.Sprintf("%%s%d = add %%s%d, %%x%d", i+1, i, i+1) }) + "output \"o\" " + last,
		"before a product":     inputs(n, "3,3") + sumOf(n) + "%o = matmul " + last + ", %x0\noutput \"o\" %o",
		"after a product":      inputs(n, "3,3") + "%s0 = matmul %x0, %x1\n" + numbered(n-1, func(i int) string { return fmt.Sprintf("%%s%d = add %%s%d, %%x%d", i+1, i, i+1) }) + "output \"o\" " + last,
		"before a convolution": inputs(n, "1,2,4,4") + "%w = weight {name=\"w\", dtype=f32, shape=[2,2,3,3]}\n" + sumOf(n) + "%o = conv " + last + ", %w {padding_low=[1,1], padding_high=[1,1]}\noutput \"o\" %o",
		"after a convolution":  inputs(n, "1,2,4,4") + "%w = weight {name=\"w\", dtype=f32, shape=[2,2,3,3]}\n%s0 = conv %x0, %w {padding_low=[1,1], padding_high=[1,1]}\n" + numbered(n-1, func(i int) string { return fmt.Sprintf("%%s%d = add %%s%d, %%x%d", i+1, i, i+1) }) + "output \"o\" " + last,
		"nested where":         inputs(n, "3,2") + numbered(n, func(i int) string { return fmt.Sprintf(`%%b%d = input {name="b%d", dtype=bool, shape=[3,2]}`, i, i) }) + "%s0 = where %b0, %x0, %x1\n" + numbered(n-1, func(i int) string { return fmt.Sprintf("%%s%d = where %%b%d, %%x%d, %%s%d", i+1, i+1, i+1, i) }) + "output \"o\" " + last,
		"outputs":              inputs(n, "3,2") + sumOf(n) + numbered(n, func(i int) string { return fmt.Sprintf("output \"o%d\" %%s%d", i, i) }),
		"chained states":       numbered(n, func(i int) string { return fmt.Sprintf(`%%t%d = state {name="t%d", dtype=f32, shape=[3,2]}`, i, i) }) + inputs(1, "3,2") + "%s0 = add %t0, %x0\n" + numbered(n-1, func(i int) string { return fmt.Sprintf("%%s%d = add %%s%d, %%t%d", i+1, i, i+1) }) + numbered(n, func(i int) string { return fmt.Sprintf("update %%t%d = %%s%d", i, i) }),
		"states that rotate":   numbered(n, func(i int) string { return fmt.Sprintf(`%%t%d = state {name="t%d", dtype=f32, shape=[3,2]}`, i, i) }) + numbered(n, func(i int) string { return fmt.Sprintf("%%s%d = neg %%t%d", i, (i+1)%n) }) + numbered(n, func(i int) string { return fmt.Sprintf("update %%t%d = %%s%d", i, i) }),
		"sums of one row": inputs(1, "3,5") + numbered(n, func(i int) string {
			return fmt.Sprintf("%%a%d = affine %%x0 {add=%d.0}\n%%e%d = exp2 %%a%d\n%%r%d = sum %%e%d "+
				"{axes=[1]}\noutput \"r%d\" %%r%d", i, -i, i, i, i, i, i, i)
		}),
		"a row again and again": inputs(1, "3,5") + "%s0 = mean %x0 {axes=[1], keepdims=true}\n" +
			numbered(2*n, func(i int) string {
				return fmt.Sprintf("%%d%d = sub %%x0, %%s%d\n%%s%d = mean %%d%d {axes=[1], keepdims=true}", i, i, i+1,
					i)
			}) + fmt.Sprintf("output \"o\" %%s%d", 2*n),
		"sums of one row added up": inputs(1, "3,5") + numbered(2*n, func(i int) string {
			return fmt.Sprintf("%%a%d = affine %%x0 {add=%d.0}\n%%e%d = exp2 %%a%d\n%%r%d = sum %%e%d {axes=[1]}",
				i, -i, i, i, i, i)
		}) + "%s0 = abs %r0\n" + numbered(2*n-1, func(i int) string {
			return fmt.Sprintf("%%s%d = add %%s%d, %%r%d", i+1, i, i+1)
		}) + fmt.Sprintf("output \"o\" %%s%d", 2*n-1),
		"unrolled LSTM": lstm(n),
	}
}

// lstm is n unrolled steps of a recurrent cell, each with its own weights.
func lstm(n int) string {
	var b strings.Builder
	b.WriteString(inputs(n, "2,3") + `%h = input {name="h", dtype=f32, shape=[2,3]}` +
		"\n%c = input {name=\"c\", dtype=f32, shape=[2,3]}\n")
	for _, g := range []string{"i", "f", "g", "o"} {
		fmt.Fprintf(&b, "%%w%s = weight {name=\"w%s\", dtype=f32, shape=[3,3]}\n%%u%s = weight {name=\"u%s\", "+
			"dtype=f32, shape=[3,3]}\n%%b%s = weight {name=\"b%s\", dtype=f32, shape=[3]}\n", g, g, g, g, g, g)
	}
	h, c := "h", "c"
	for i := range n {
		for _, g := range []string{"i", "f", "g", "o"} {
			act := "sigmoid"
			if g == "g" {
				act = "tanh"
			}
			fmt.Fprintf(&b, "%%x%s%d = matmul %%x%d, %%w%s\n%%y%s%d = matmul %%%s, %%u%s\n%%z%s%d = add %%x%s%d, "+
				"%%y%s%d\n%%q%s%d = add %%z%s%d, %%b%s\n%%g%s%d = %s %%q%s%d\n",
				g, i, i, g, g, i, h, g, g, i, g, i, g, i, g, i, g, i, g, g, i, act, g, i)
		}
		fmt.Fprintf(&b, "%%fc%d = mul %%gf%d, %%%s\n%%ig%d = mul %%gi%d, %%gg%d\n%%c%d = add %%fc%d, %%ig%d\n%%tc%d "+
			"= tanh %%c%d\n%%h%d = mul %%go%d, %%tc%d\n", i, i, c, i, i, i, i, i, i, i, i, i, i, i)
		h, c = fmt.Sprintf("h%d", i), fmt.Sprintf("c%d", i)
		fmt.Fprintf(&b, "output \"h%d\" %%h%d\n", i, i)
	}
	return b.String()
}

// TestManyOperands compiles graphs of more tensors than a kernel binds, and
// compares their kernels with the reference.
func TestManyOperands(t *testing.T) {
	t.Parallel()
	for _, n := range []int{5, 14, 30} {
		if testing.Short() && n > 14 {
			continue
		}
		for name, text := range manyOperands(n) {
			t.Run(fmt.Sprintf("%d/%s", n, name), func(t *testing.T) {
				s, c, err := passtest.Check(passtest.Parse(t, text), 1, 2)
				if err != nil {
					t.Fatal(err)
				}
				if c.Ran == 0 {
					t.Error("the reference ran nothing")
				}
				for _, k := range s.Kernels {
					if len(k.Bindings) > 14 || len(k.Phases) > 64 {
						t.Errorf("%s binds %d buffers and folds rows %d times", k.Name, len(k.Bindings), len(k.Phases))
					}
				}
			})
		}
	}
}

// TestLargeConcat holds that a concat of many tensors reads and stores each
// element once, whatever it takes in kernels.
func TestLargeConcat(t *testing.T) {
	g := passtest.Parse(t, manyOperands(1000)["concat"])
	s, err := passes.Run(g, passes.Options{Limits: lower.Limits{Bindings: 11}})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Kernels) != 100 {
		t.Errorf("%d kernels, want one for every 10 tensors", len(s.Kernels))
	}
	points := int64(0)
	for _, k := range s.Kernels {
		points += ir.Shape(k.Parallel).MaxElems()
	}
	if points != 6000 || len(s.Program.Buffers) != 1001 {
		t.Errorf("%d points and %d buffers, want 6000 and 1001", points, len(s.Program.Buffers))
	}
}

// deepGraphs are chains of ops that repeat or share the preceding values.
var deepGraphs = map[string]func(n int) string{
	"expensive ops": func(n int) string {
		return inputs(1, "6") + "%s0 = abs %x0\n" + numbered(n, func(i int) string {
			return fmt.Sprintf("%%s%d = sin %%s%d", i+1, i)
		})
	},
	"expensive ops after a product": func(n int) string {
		return inputs(2, "3,3") + "%s0 = matmul %x0, %x1\n" +
			numbered(n, func(i int) string { return fmt.Sprintf("%%s%d = sin %%s%d", i+1, i) })
	},
	"expensive ops before a softmax": func(n int) string {
		return inputs(1, "2,3") + "%t0 = abs %x0\n" + numbered(n, func(i int) string {
			return fmt.Sprintf("%%t%d = sin %%t%d", i+1, i)
		}) + fmt.Sprintf("%%s%d = softmax %%t%d {axis=1}\n", n, n)
	},
	"each value twice": func(n int) string {
		return inputs(1, "6") + "%h0 = affine %x0 {mul=0.01}\n%s0 = abs %h0\n" + numbered(n, func(i int) string {
			return fmt.Sprintf("%%m%d = mul %%s%d, %%s%d\n%%a%d = affine %%m%d {mul=0.1}\n%%s%d = add %%a%d, %%s%d", i,
				i, i, i, i, i+1, i, i)
		})
	},
	"each value at two places": func(n int) string {
		return inputs(1, fmt.Sprint(n+4)) + "%s0 = abs %x0\n" + numbered(n, func(i int) string {
			w := n + 3 - i
			return fmt.Sprintf("%%l%d = slice %%s%d {starts=[0], limits=[%d]}\n%%r%d = slice %%s%d {starts=[1], "+
				"limits=[%d]}\n%%t%d = add %%l%d, %%r%d\n%%s%d = affine %%t%d {mul=0.5}", i, i, w, i, i,
				w+1, i, i, i, i+1, i)
		})
	},
}

// TestDeepGraphs compares the kernels of deep graphs with the reference, and holds
// that none is larger than kernels may be.
func TestDeepGraphs(t *testing.T) {
	t.Parallel()
	for name, graph := range deepGraphs {
		t.Run(name, func(t *testing.T) {
			const n = 60
			limits := lower.Limits{Size: 150, Weigh: func(op ir.Op, _ ir.DType) int {
				if op == ir.OpSin {
					return 15
				}
				return 1
			}}
			g := passtest.Parse(t, graph(n)+fmt.Sprintf("output \"o\" %%s%d", n))
			if _, _, err := passtest.Check(g, 1, 2); err != nil {
				t.Fatal(err)
			}
			s, err := passes.Run(g, passes.Options{Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Kernels) < 2 {
				t.Errorf("%d kernels", len(s.Kernels))
			}
			for _, k := range s.Kernels {
				if size := limits.SizeOf(k); size > limits.Size*11/10 { // loads come on top
					t.Errorf("%s has size %d", k.Name, size)
				}
			}
		})
	}
}

// growing are graphs for which compilation time must be proportional to size.
var growing = map[string]func(n int) string{
	"chain": func(n int) string {
		return inputs(2, "6") + "%s0 = abs %x0\n" + numbered(n, func(i int) string {
			return fmt.Sprintf("%%s%d = add %%s%d, %%x1", i+1, i)
		}) + fmt.Sprintf("output \"o\" %%s%d", n)
	},
	"sum": func(n int) string { return inputs(n, "6") + sumOf(n) + fmt.Sprintf("output \"o\" %%s%d", n-1) },
	"outputs of one input": func(n int) string {
		return inputs(1, "6") + numbered(n, func(i int) string {
			return fmt.Sprintf("%%a%d = affine %%x0 {add=%d.0}\n%%e%d = tanh %%a%d\noutput \"o%d\" %%e%d",
				i, i, i, i, i, i)
		})
	},
	"outputs of their own inputs": func(n int) string {
		return inputs(n, "6") + numbered(n, func(i int) string {
			return fmt.Sprintf("%%e%d = tanh %%x%d\noutput \"o%d\" %%e%d", i, i, i, i)
		})
	},
	"products with residuals": func(n int) string {
		return inputs(2, "3,3") + "%s0 = abs %x0\n" + numbered(n, func(i int) string {
			return fmt.Sprintf("%%m%d = matmul %%s%d, %%x1\n%%t%d = tanh %%m%d\n%%s%d = add %%s%d, %%t%d", i,
				i, i, i, i+1, i, i)
		}) + fmt.Sprintf("output \"o\" %%s%d", n)
	},
	"all values of a chain at its end": func(n int) string {
		return inputs(1, "3,3") + "%s0 = abs %x0\n" + numbered(n, func(i int) string {
			return fmt.Sprintf("%%s%d = matmul %%s%d, %%x0", i+1, i)
		}) +
			"%t0 = abs %s0\n" + numbered(n, func(i int) string {
			return fmt.Sprintf("%%t%d = add %%t%d, %%s%d", i+1, i, i+1)
		}) + fmt.Sprintf("output \"o\" %%t%d", n)
	},
	"states": func(n int) string {
		return numbered(n, func(i int) string {
			return fmt.Sprintf(`%%t%d = state {name="t%d", dtype=f32, shape=[3]}`, i, i)
		}) +
			numbered(n, func(i int) string { return fmt.Sprintf("%%s%d = neg %%t%d", i, (i+1)%n) }) +
			numbered(n, func(i int) string { return fmt.Sprintf("update %%t%d = %%s%d", i, i) })
	},
	"states in place that read the next one":   func(n int) string { return lineStates(n, 1) },
	"states in place that read the one before": func(n int) string { return lineStates(n, n-1) },
}

// lineStates are n states. A line of each is updated in place with a line of another state's old value.
func lineStates(n, from int) string {
	return "%at = input {name=\"at\", dtype=i32, shape=[]}\n" + numbered(n, func(i int) string {
		return fmt.Sprintf(`%%t%d = state {name="t%d", dtype=f32, shape=[4,3]}`, i, i)
	}) + numbered(n, func(i int) string {
		return fmt.Sprintf("%%l%d = dynamic_slice %%t%d, %%at {size=[1]}\n", i, (i+from)%n) +
			fmt.Sprintf("%%s%d = dynamic_update_slice %%t%d, %%l%d, %%at", i, i, i)
	}) + numbered(n, func(i int) string { return fmt.Sprintf("update %%t%d = %%s%d", i, i) })
}

// TestWorkGrowsWithGraph counts the nodes that fusion visits, and the allocations of all passes, for graphs of one size
// and of four times that size.
func TestWorkGrowsWithGraph(t *testing.T) {
	for name, graph := range growing {
		t.Run(name, func(t *testing.T) {
			visits, allocs := [2]float64{}, [2]float64{}
			for i, n := range []int{300, 1200} {
				g := passtest.Parse(t, graph(n))
				var s *passes.State
				allocs[i] = testing.AllocsPerRun(1, func() {
					var err error
					s, err = passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: passtest.FuseAll}})
					if err != nil {
						t.Fatal(err)
					}
				})
				visits[i] = float64(s.Fusion.Visits)
			}
			if visits[1] > 5*visits[0] || allocs[1] > 5*allocs[0] {
				t.Errorf("4 times the nodes take %.1f times the visits (%.0f) and %.1f times the allocations (%.0f)",
					visits[1]/visits[0], visits[1], allocs[1]/allocs[0], allocs[1])
			}
		})
	}
}
