package interp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

var errNoWeight = errors.New("no such weight")

// goldenCase mirrors a case of golden/ops/cases.json.
type goldenCase struct {
	Name  string
	Op    string
	Attrs map[string]json.RawMessage
	Args  []goldenTensor
	Want  goldenTensor
}

// goldenTensor holds numbers, bools, and the strings nan, inf and -inf.
type goldenTensor struct {
	DType string
	Dims  []int
	Data  []any
}

func (g goldenTensor) decode(t *testing.T) *ir.Data {
	t.Helper()
	dt, err := ir.ParseDType(g.DType)
	if err != nil {
		t.Fatal(err)
	}
	if !dt.IsFloat() {
		v := make([]int64, len(g.Data))
		for i, x := range g.Data {
			v[i] = goldenInt(t, x)
		}
		return integers(t, dt, v, g.Dims...)
	}
	f := make([]float64, len(g.Data))
	for i, x := range g.Data {
		if f[i], err = strconv.ParseFloat(fmt.Sprint(x), 64); err != nil {
			t.Fatal(err)
		}
	}
	return floats(t, dt, f, g.Dims...)
}

func goldenInt(t *testing.T, x any) int64 {
	t.Helper()
	if b, ok := x.(bool); ok {
		if b {
			return 1
		}
		return 0
	}
	n, err := strconv.ParseInt(fmt.Sprint(x), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// attrs decodes the attributes as their op declares them.
func (g goldenCase) attrs(t *testing.T, op ir.Op) []ir.Attr {
	t.Helper()
	var list []ir.Attr
	for name, raw := range g.Attrs {
		i := slices.IndexFunc(op.Info().Attrs, func(a ir.AttrInfo) bool { return a.Name == name })
		if i < 0 {
			t.Fatalf("%s has no attribute %q", op, name)
		}
		list = append(list, ir.Attr{Name: name, Value: goldenAttr(t, op.Info().Attrs[i].Kind, raw)})
	}
	return list
}

func goldenAttr(t *testing.T, kind ir.AttrKind, raw []byte) any {
	t.Helper()
	get := func(v any) {
		if err := json.Unmarshal(raw, v); err != nil {
			t.Fatal(err)
		}
	}
	switch kind {
	case ir.AttrInt:
		var v int
		get(&v)
		return v
	case ir.AttrInts, ir.AttrShape:
		var v []int
		get(&v)
		if kind == ir.AttrShape {
			return ir.ShapeOf(v...)
		}
		return v
	case ir.AttrFloat:
		var v float64
		get(&v)
		return v
	case ir.AttrBool:
		var v bool
		get(&v)
		return v
	}
	var v string
	get(&v)
	if kind != ir.AttrDType {
		return v
	}
	dt, err := ir.ParseDType(v)
	if err != nil {
		t.Fatal(err)
	}
	return dt
}

func readGolden(t *testing.T) []goldenCase {
	t.Helper()
	text, err := os.ReadFile("../../golden/ops/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []goldenCase }
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// TestGolden compares with NumPy. Both compute in float64, which may differ in the last bits, and round once. The
// rounded results must have equal bits.
func TestGolden(t *testing.T) {
	for _, gc := range readGolden(t) {
		t.Run(gc.Name, func(t *testing.T) {
			op, err := ir.ParseOp(gc.Op)
			if err != nil {
				t.Fatal(err)
			}
			want := gc.Want.decode(t)
			got := gc.evaluate(t, op, false)
			if err := Compare(got, want, ir.Tolerance{}).Err(); err != nil {
				t.Errorf("%s, want %s\n%v", got, want, err)
			}
			if folded := gc.evaluate(t, op, true); !bytes.Equal(folded.Bytes, got.Bytes) {
				t.Error("folding the op as a constant gives other bits than running it")
			}
		})
	}
}

// evaluate computes the case, with its arguments as constants or as inputs.
func (g goldenCase) evaluate(t *testing.T, op ir.Op, constant bool) *ir.Data {
	t.Helper()
	b := newGraph(t)
	in := map[string]*ir.Data{}
	var args []*ir.Node
	for i, a := range g.Args {
		d := a.decode(t)
		if constant {
			args = append(args, b.constant(d))
			continue
		}
		name := fmt.Sprint("x", i)
		in[name] = d
		args = append(args, b.input(name, d.DType, ir.ShapeOf(d.Dims...)))
	}
	n, err := b.Add(op, args, g.attrs(t, op), "")
	if err != nil {
		t.Fatal(err)
	}
	if constant {
		out, err := Eval(context.Background(), b.Graph, []*ir.Node{n}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	b.output("y", n)
	return run(t, b.program(Options{}), in, nil)["y"]
}

// TestGoldenCoversClasses fails if a class of ops has no case from NumPy.
func TestGoldenCoversClasses(t *testing.T) {
	seen := map[ir.Op]bool{}
	for _, gc := range readGolden(t) {
		op, err := ir.ParseOp(gc.Op)
		if err != nil {
			t.Fatal(err)
		}
		seen[op] = true
	}
	for _, op := range ir.Ops() {
		if class := op.Class(); class != ir.ClassLeaf && class != ir.ClassControl && op != ir.OpDequantize &&
			op != ir.OpQuantize && !seen[op] {
			t.Errorf("%s (%s) has no golden case", op, op.Class())
		}
	}
}
