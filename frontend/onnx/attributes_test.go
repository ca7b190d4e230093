package onnx_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// attribute is an attribute in the specification.
type attribute struct {
	name, typ string
	must      bool
	standard  string // the default, if any
}

// facts is a line of testdata/attributes.txt: the attributes of an op since an opset.
type facts struct {
	domain, op string
	opset      int64
	attributes []attribute
}

// eachLine calls visit for the lines of a file that are no comments.
func eachLine(t *testing.T, path string, visit func(line string)) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		if line := lines.Text(); line != "" && line[0] != '#' {
			visit(line)
		}
	}
}

// named splits the name of an op with its domain.
func named(op string) (domain, name string) {
	if at := strings.LastIndex(op, "."); at >= 0 {
		return op[:at], op[at+1:]
	}
	if slices.Contains([]string{"Adagrad", "Adam", "Momentum", "Gradient"}, op) {
		return "ai.onnx.preview.training", op
	}
	return "", op
}

func readFacts(t *testing.T) (all []facts) {
	eachLine(t, "testdata/attributes.txt", func(line string) {
		fields := strings.Fields(line)
		f := facts{}
		f.domain, f.op = named(fields[0])
		var err error
		if f.opset, err = strconv.ParseInt(fields[1], 10, 64); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for _, text := range fields[2:] {
			a := attribute{}
			a.name, a.typ, _ = strings.Cut(text, ":")
			a.typ, a.standard, _ = strings.Cut(a.typ, "=")
			a.typ, a.must = strings.CutSuffix(a.typ, "!")
			f.attributes = append(f.attributes, a)
		}
		all = append(all, f)
	})
	return all
}

// sample is a line of testdata/samples.txt: a node for which every attribute has a visible effect.
type sample struct {
	inputs   []string
	results  int
	always   map[string]string
	standard map[string]string // defaults missing in attributes.txt
	other    map[string]string
	below    int64 // only opsets below; 0 for all
}

func readSamples(t *testing.T) map[string][]sample {
	all := map[string][]sample{}
	eachLine(t, "testdata/samples.txt", func(line string) {
		head, rest, _ := strings.Cut(line, ": ")
		parts := strings.Split(rest, ";")
		if len(parts) != 3 {
			t.Fatalf("%q: want three parts", line)
		}
		s := sample{results: 1, always: map[string]string{}, standard: map[string]string{}, other: map[string]string{}}
		in, results, some := strings.Cut(parts[0], "->")
		if s.inputs = strings.Fields(in); some {
			s.results, _ = strconv.Atoi(strings.TrimSpace(results))
		}
		for _, text := range strings.Fields(parts[1]) {
			name, value, _ := strings.Cut(text, "=")
			s.always[name] = value
		}
		for _, text := range strings.Fields(parts[2]) {
			name, value, _ := strings.Cut(text, "=")
			if standard, other, two := strings.Cut(value, "|"); two {
				s.standard[name], value = standard, other
			}
			s.other[name] = value
		}
		ops, below, _ := strings.Cut(head, "<")
		s.below, _ = strconv.ParseInt(below, 10, 64)
		for _, op := range strings.Split(ops, ",") {
			all[op] = append(all[op], s)
		}
	})
	return all
}

// elementType is how samples name the types of constants.
var elementType = map[string]int64{"f32": 1, "u8": 2, "i64": 7, "b": 9, "f8": f8e5m2}

// extentsOf reads 2,3 as extents.
func extentsOf(text string) (dims []int64) {
	for _, n := range strings.Split(text, ",") {
		if v, err := strconv.ParseInt(n, 10, 64); err == nil {
			dims = append(dims, v)
		}
	}
	return dims
}

// operand makes input i of a sample: a constant, or an input with its value.
func operand(t *testing.T, i int, text string) (name string, constant msg, port msg, value *ir.Data) {
	name = fmt.Sprintf("in%d", i)
	if head, list, ok := strings.Cut(text, "="); ok {
		typ, dims, of := strings.Cut(strings.TrimSuffix(head, "]"), "[")
		if !of { // s3=…, an input of these floats
			d := extentsOf(typ[1:])
			var values []float64
			for _, v := range strings.Split(list, ",") {
				f, err := strconv.ParseFloat(v, 64)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, f)
			}
			return name, nil, portOf(name, float, d), f32(t, values, sizes(d)...)
		}
		var raw []byte
		for _, v := range strings.Split(list, ",") {
			f, err := strconv.ParseFloat(v, 64)
			switch {
			case err != nil:
				t.Fatal(err)
			case typ == "f32":
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(f)))
			case typ == "i64":
				raw = binary.LittleEndian.AppendUint64(raw, uint64(int64(f)))
			default:
				raw = append(raw, byte(f))
			}
		}
		return name, tensorOf(name, elementType[typ], extentsOf(dims)).bytes(9, raw), nil, nil
	}
	dims := extentsOf(text[1:])
	n := 1
	for _, d := range dims {
		n *= int(d)
	}
	values := make([]float64, n)
	for k := range values {
		switch text[0] {
		case 'f', 'w':
			values[k] = float64((k*7+i*3)%11)/4 - 1.25
		case 'p':
			values[k] = float64((k*7+i*3)%11)/4 + 0.25
		case 't':
			values[k] = float64((k*5)%3) - 1
		case 'q':
			values[k] = float64((k*7 + i) % 13)
		case 'B':
			values[k] = float64(k % 2)
		default:
			t.Fatalf("input %q", text)
		}
	}
	switch text[0] {
	case 'w':
		list := make([]float32, n)
		for k, v := range values {
			list[k] = float32(v)
		}
		return name, floats(name, list, dims...), nil, nil
	case 'q', 'B':
		typ, dtype := int64(2), ir.U8
		if text[0] == 'B' {
			typ, dtype = boolean, ir.Bool
		}
		d, err := ir.FromFloats(dtype, values, sizes(dims)...)
		if err != nil {
			t.Fatal(err)
		}
		return name, nil, portOf(name, typ, dims), d
	}
	return name, nil, portOf(name, float, dims), f32(t, values, sizes(dims)...)
}

func sizes(dims []int64) []int {
	out := make([]int, len(dims))
	for i, d := range dims {
		out[i] = int(d)
	}
	return out
}

func portOf(name string, typ int64, dims []int64) msg {
	list := make([]any, len(dims))
	for i, d := range dims {
		list[i] = int(d)
	}
	return port(name, typ, list...)
}

// attributeOf writes an attribute of a type and value.
func attributeOf(t *testing.T, a attribute, value string) msg {
	number := func(text string) float64 {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s=%s: %v", a.name, value, err)
		}
		return f
	}
	list := strings.Split(value, ",")
	switch a.typ {
	case "int":
		return intAttr(a.name, int64(number(value)))
	case "float":
		return floatAttr(a.name, float32(number(value)))
	case "text":
		return textAttr(a.name, value)
	case "ints":
		return intsAttr(a.name, extentsOf(value)...)
	case "floats":
		out := make([]float32, len(list))
		for i, text := range list {
			out[i] = float32(number(text))
		}
		return floatsAttr(a.name, out...)
	case "texts":
		m := msg{}.text(1, a.name)
		for _, text := range list {
			m = m.text(9, text)
		}
		return m.int(20, 8)
	}
	t.Fatalf("attribute %s is of type %s", a.name, a.typ)
	return nil
}

// outcome builds and runs a sample with these attributes.
func outcome(t *testing.T, f facts, s sample, values map[string]string) (map[string]*ir.Data, error) {
	var ins, outs []string
	var constants, ports []msg
	given := map[string]*ir.Data{}
	for i, text := range s.inputs {
		if text == "-" {
			ins = append(ins, "")
			continue
		}
		name, constant, port, value := operand(t, i, text)
		if ins = append(ins, name); constant != nil {
			constants = append(constants, constant)
		} else {
			ports, given[name] = append(ports, port), value
		}
	}
	for i := range s.results {
		outs = append(outs, fmt.Sprintf("out%d", i))
	}
	n := node(f.op, ins, outs)
	for _, a := range f.attributes {
		if value, ok := values[a.name]; ok {
			n = n.bytes(5, attributeOf(t, a, value))
		}
	}
	if f.domain != "" {
		n = n.text(7, f.domain)
	}
	opset := f.opset
	if f.domain != "" {
		opset = 21
	}
	m := model(opset, graph(inputs(ports...), weights(constants...), nodes(n), outputs(outs...)))
	file, err := onnx.NewReader(m, onnx.Options{})
	if err != nil {
		return nil, err
	}
	p, err := interp.New(file.Graph, interp.Options{Weights: file})
	if err != nil {
		return nil, err
	}
	out, err := p.Run(t.Context(), given, nil)
	return out, errors.Join(err, file.Graph.OutputInfo().Trim(out))
}

// elsewhere lists ops with attributes that are graphs, tensors or names, and ops that make sequences. ONNX's suite
// tests them, and TestNothingIsLeftOut tests consumed_inputs.
var elsewhere = []string{"ConcatFromSequence", "Constant", "ConstantOfShape", "Gradient", "If", "Loop", "Optional",
	"Scan", "SequenceEmpty", "SequenceMap", "SplitToSequence"}

// TestAttributes tests each attribute of each supported op, in each opset that added or changed it. With the default
// value a node gives the same result as without the attribute. With another value it gives a different result or an
// error with the attribute's name, unless the row says that it ignores the attribute. A missing required attribute is
// an error with its name.
func TestAttributes(t *testing.T) {
	samples, rows, tried := readSamples(t), onnx.Rows(), map[string]bool{}
	checks := 0
	for _, f := range readFacts(t) {
		leftOut, ok := rows[f.domain][f.op]
		if !ok {
			t.Errorf("%s: vkc does not support this op: take it out of attributes.txt", f.op)
			continue
		}
		key := f.op
		if f.domain == "com.microsoft" {
			key = f.domain + "." + f.op
		}
		of := slices.Clone(samples[key])
		slices.SortFunc(of, func(a, b sample) int { return int(uint64(a.below-1)>>1) - int(uint64(b.below-1)>>1) })
		at := slices.IndexFunc(of, func(s sample) bool { return s.below == 0 || f.opset < s.below })
		t.Run(fmt.Sprint(key, f.opset), func(t *testing.T) {
			for _, a := range f.attributes {
				if a.name == "consumed_inputs" || slices.Contains(elsewhere, f.op) {
					continue
				}
				if at < 0 {
					t.Fatalf("samples.txt has no line for it")
				}
				s := of[at]
				tried[key] = true
				with := func(value string) map[string]string {
					values := maps.Clone(s.always)
					if values[a.name] = value; value == "" {
						delete(values, a.name)
					}
					return values
				}
				other, has := s.other[a.name]
				if !has {
					t.Errorf("samples.txt has no other value of %s", a.name)
					continue
				}
				if a.must {
					_, err := outcome(t, f, s, with("")) // some became inputs
					text := fmt.Sprint(err)
					if !strings.Contains(text, a.name) && !strings.Contains(text, "is missing") {
						t.Errorf("without %s, which must be there: error %v", a.name, err)
					}
				}
				plain, err := outcome(t, f, s, s.always)
				if err != nil {
					t.Fatalf("the sample: %v", err)
				}
				standard := a.standard
				if said, ok := s.standard[a.name]; ok && said != "-" && standard == "" {
					standard = said
				}
				if standard != "" && s.always[a.name] == "" {
					checks++
					got, err := outcome(t, f, s, with(standard))
					if err != nil || !sameOutcome(got, plain) {
						t.Errorf("with the default, %s=%s, it gives something else than without: %v, error %v, want %v",
							a.name, standard, got, err, plain)
					}
				}
				if other == "-" {
					continue // the sample cannot show it
				}
				checks++
				other, unfit := strings.CutPrefix(other, "!")
				got, err := outcome(t, f, s, with(other))
				_, out := leftOut[a.name]
				switch {
				case unfit && err == nil:
					t.Errorf("with %s=%s, which does not fit, there is no error", a.name, other)
				case err != nil && !unfit && !strings.Contains(err.Error(), a.name):
					t.Errorf("with %s=%s: an error that does not name the attribute: %v", a.name, other, err)
				case !unfit && err == nil && !out && sameOutcome(got, plain):
					t.Errorf("with %s=%s it gives the same as without: %v", a.name, other, got)
				case out && (err != nil || !sameOutcome(got, plain)):
					t.Errorf("with %s=%s, which it leaves out: %v, error %v, want %v", a.name, other, got, err, plain)
				}
			}
		})
	}
	for domain, ops := range rows {
		for op, leftOut := range ops {
			for name, reason := range leftOut {
				if len(reason) < 20 {
					t.Errorf("%s.%s leaves %s out without a reason", domain, op, name)
				}
			}
		}
	}
	for key := range samples {
		if !tried[key] {
			t.Errorf("samples.txt has a line of %s that nothing uses", key)
		}
	}
	t.Logf("%d values", checks)
}

// sameOutcome reports whether results are equal, bit by bit.
func sameOutcome(a, b map[string]*ir.Data) bool {
	return maps.EqualFunc(a, b, func(x, y *ir.Data) bool {
		return x.DType == y.DType && slices.Equal(x.Dims, y.Dims) && bytes.Equal(x.Bytes, y.Bytes)
	})
}
