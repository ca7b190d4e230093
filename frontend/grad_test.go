package frontend_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
	"github.com/vkc-go/vkc/ir/optest"
)

// TestEveryOpHasAGradient fails on an op that has neither a rule nor a reason.
func TestEveryOpHasAGradient(t *testing.T) {
	for _, op := range ir.Ops() {
		why, has := op.Info().NoGrad, frontend.HasGrad(op)
		switch {
		case op.Class() == ir.ClassLeaf:
		case why == "" && !has:
			t.Errorf("%s has no gradient: add a rule to a table in frontend/grad_*.go, or say why there is none in "+
				"field NoGrad of its row in ir/ops_*.go", op)
		case why != "" && has:
			t.Errorf("%s has a rule for its gradient, and its row says that there is none: %s", op, why)
		}
	}
}

// domains are where arguments lie of ops that are not smooth, or not defined, elsewhere.
var domains = map[ir.Op][2]float64{
	ir.OpAcosh: {1.2, 3}, ir.OpAtanh: {-0.9, 0.9}, ir.OpLog: {0.3, 2}, ir.OpLog2: {0.3, 2}, ir.OpLog1p: {-0.5, 2}, ir.OpSqrt: {0.3, 2}, ir.OpRsqrt: {0.3, 2},
	ir.OpRecip: {0.4, 2}, ir.OpDiv: {0.4, 2}, ir.OpMod: {0.4, 2}, ir.OpRem: {0.4, 2}, ir.OpPow: {0.3, 2},
	ir.OpPowf: {0.3, 2}, ir.OpAsin: {-0.9, 0.9}, ir.OpAcos: {-0.9, 0.9}, ir.OpTan: {-1.2, 1.2},
	ir.OpHardswish: {-5, 5}, ir.OpHardsigmoid: {-5, 5}, ir.OpBatchNorm: {0.3, 2}, ir.OpAtan2: {0.4, 2},
}

// TestGradients checks the gradient rule of every op, and the gradients of these gradients, against finite differences
// of the reference in f64 along random directions. It uses the cases that verify devices.
func TestGradients(t *testing.T) {
	cases := map[ir.Op][]optest.Case{}
	for _, c := range optest.Cases() {
		if frontend.HasGrad(c.Op) {
			cases[c.Op] = append(cases[c.Op], c)
		}
	}
	all := 0
	for _, op := range ir.Ops() {
		if !frontend.HasGrad(op) {
			continue
		}
		checked := 0
		for _, c := range suitable(cases[op], 2000) {
			if checkGradient(t, c, domains[op]) {
				checked++
			}
		}
		all += checked
		if checked == 0 {
			t.Errorf("no case of %s suits a check of its gradient: see package ir/optest", op)
		}
	}
	t.Log(all, "cases")
}

// suitable returns the cases with non-empty and not too large tensors, one of each name.
func suitable(cases []optest.Case, elems int64) []optest.Case {
	var list []optest.Case
	seen := map[string]bool{}
	for _, c := range cases {
		name := strings.Replace(c.Name, "/"+c.DType.String()+"/", "/", 1)
		if seen[name] {
			continue
		}
		if g, _, ok := c.Build(ir.F64); ok && suits(g, elems) {
			seen[name] = true
			list = append(list, c)
		}
	}
	return list
}

// suits reports whether a case is small, and its floats are f64.
func suits(g *ir.Graph, elems int64) bool {
	for _, n := range g.Nodes() {
		if e := n.Shape().MaxElems(); e == 0 || e > elems || n.DType().IsFloat() && n.DType() != ir.F64 {
			return false
		}
	}
	return g.Outputs()[0].Node.DType() == ir.F64
}

// checkGradient compares first and second gradients of a random sum of a case's result with differences, and reports
// whether there is anything to compare: some cases have results that are no numbers.
func checkGradient(t *testing.T, c optest.Case, domain [2]float64) bool {
	t.Helper()
	name := c.Name
	g, values, _ := c.Build(ir.F64)
	if domain == [2]float64{} {
		domain = [2]float64{-1.7, 1.7}
	}
	rng := rand.New(rand.NewPCG(7, 11))
	in, dirs := map[string]*ir.Data{}, map[string][]float64{}
	between := func(s ir.Shape, lo, hi float64, next func() float64) *ir.Data {
		dims, err := s.Eval(nil)
		if err != nil {
			t.Fatal(err)
		}
		list := make([]float64, s.MaxElems())
		for i := range list {
			list[i] = lo + (hi-lo)*next()
		}
		d, err := ir.FromFloats(ir.F64, list, dims...)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	random := func(s ir.Shape, lo, hi float64) *ir.Data {
		return between(s, lo, hi, rng.Float64)
	}
	// Multiples of the golden ratio are far from each other and from simple fractions: a step makes none the larger of
	// two that was the smaller, and takes none past a corner such as 0.
	multiple := 0.0
	apart := func(s ir.Shape, lo, hi float64) *ir.Data {
		return between(s, lo, hi, func() float64 { multiple++; return math.Mod(multiple*math.Phi, 1) })
	}
	weights := blockWeights{}
	var params []string
	built, err := frontend.Build(name, func(b *frontend.Builder) {
		ps, y := frontend.Graft(b, g)
		coefficients := func(x frontend.Tensor) frontend.Tensor { return b.Const(random(x.Shape(), -1, 1)) }
		loss := y.Mul(coefficients(y)).Sum()
		b.Output("loss1", loss)
		for order := 1; order <= 2; order++ {
			next := frontend.Tensor{}
			for i, d := range frontend.Pull(loss, loss.Lit(1), ps) {
				if d.IsZero() {
					continue
				}
				if !d.Node().Type().Equal(ps[i].Node().Type()) {
					t.Errorf("%s: the gradient of %s is %s", name, ps[i], d)
				}
				b.Output(fmt.Sprint("grad", order, ps[i].Node().Name()), d)
				part := d.Mul(coefficients(d)).Sum()
				if next.IsZero() {
					next = part
				} else {
					next = next.Add(part)
				}
			}
			if loss = next; loss.IsZero() {
				loss = b.Scalar(ir.F64, 0)
			}
			if order == 1 {
				b.Output("loss2", loss)
			}
		}
		for _, p := range ps {
			params = append(params, p.Node().Name())
			in[p.Node().Name()] = apart(p.Shape(), domain[0], domain[1])
			dirs[p.Node().Name()], _ = random(p.Shape(), -1, 1).Floats()
		}
	})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return true
	}
	for k, d := range values {
		if in[k] == nil {
			in[k], weights[k] = d, d
		}
	}
	for k := range in {
		if n := built.Leaves(ir.OpWeight); len(n) > 0 && weights[k] != nil && isWeight(n, k) {
			delete(in, k)
		}
	}
	p, err := interp.New(built, interp.Options{Weights: weights})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return true
	}
	const h = 1e-5
	run := func(step float64) map[string]*ir.Data {
		moved := map[string]*ir.Data{}
		for k, d := range in {
			moved[k] = d
			if v := dirs[k]; v != nil && step != 0 {
				list, _ := d.Floats()
				for i := range list {
					list[i] += step * v[i]
				}
				moved[k], _ = ir.FromFloats(ir.F64, list, d.Dims...)
			}
		}
		out, err := p.Run(context.Background(), moved, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return out
	}
	at := run(0)
	if loss := number(t, at["loss1"]); math.IsNaN(loss) || math.IsInf(loss, 0) {
		return false
	}
	up, down, farUp, farDown := run(h), run(-h), run(2*h), run(-2*h)
	for order := 1; order <= 2; order++ {
		loss := fmt.Sprint("loss", order)
		want := (8*(number(t, up[loss])-number(t, down[loss])) - (number(t, farUp[loss]) - number(t, farDown[loss]))) /
			(12 * h)
		have, size := 0.0, math.Abs(number(t, at[loss]))
		for _, k := range params {
			d := at[fmt.Sprint("grad", order, k)]
			if d == nil {
				continue // no way leads to it
			}
			list, _ := d.Floats()
			for i, x := range list {
				have += x * dirs[k][i]
				size += math.Abs(x * dirs[k][i])
			}
		}
		if !(math.Abs(have-want) <= 1e-6*(1+size)) {
			t.Errorf("%s: derivative of order %d is %v, differences say %v", name, order, have, want)
		}
	}
	return true
}

func isWeight(leaves []*ir.Node, name string) bool {
	for _, n := range leaves {
		if n.Name() == name {
			return true
		}
	}
	return false
}

func number(t *testing.T, d *ir.Data) float64 {
	t.Helper()
	list, err := d.Floats()
	if err != nil || len(list) != 1 {
		t.Fatalf("%v: %v", d, err)
	}
	return list[0]
}

// blockWeights are tensors by name.
type blockWeights map[string]*ir.Data

// Weight implements ir.WeightSource.
func (w blockWeights) Weight(name string) (*ir.Data, error) {
	if d, ok := w[name]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("there is no weight %q", name)
}
