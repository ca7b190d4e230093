// Package onnxtest writes ONNX models of one node, with inputs, from lines of text. The tests of frontend/onnx compare
// vkc's results with recorded ones, and bench/onnxruntime compares them with onnxruntime's.
//
// A line has an op, its inputs and results, its attributes, and optionally a tolerance:
//
//	MatMulNBits: f32[2,40] !u8[8,2,16] !f32[8,2]*0.1 -> f32 ; K=40 N=8 block_size=32 bits={4|8} ; 1e-4
//
// Braces have alternatives, and there is a case for each. With several braces, there is a case for each combination,
// but braces with equal contents always have the same alternative. A domain is written before an op, as
// ai.onnx.ml:Scaler. The default is com.microsoft, and ai.onnx is ONNX's own domain. Inputs are
//
//	f32[2,3]          random numbers, normally distributed floats or integers of the whole range
//	f32[8]*0.1        positive random floats around 0.1
//	f32[8]%3          random floats between -3 and 3
//	i64[4]<10         random integers from 0 to 9
//	i32[2]=1,2        these numbers
//	!u8[4]            an initializer instead of an input
//	-                 an omitted input
//
// A result is its type, - if it is omitted, or its type and ? if it is not compared.
package onnxtest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// Tensor is an input of a case.
type Tensor struct {
	Name string
	*ir.Data
	// Constant says that the model has the tensor as an initializer.
	Constant bool
}

// Case is a model of one node.
type Case struct {
	// Line is the text of the case, without alternatives.
	Line       string
	Domain, Op string
	Model      []byte
	// Inputs are all tensors that the node reads, without the omitted ones.
	Inputs []Tensor
	// Outputs are the names of the results that are compared.
	Outputs []string
	// Tolerance is the largest difference from the right result. For floats it is relative to the largest magnitude.
	Tolerance float64
}

// elements has the types of tensors by their names in cases: ONNX's number, and the dtype.
var elements = map[string]struct {
	number int64
	dtype  ir.DType
}{
	"f32": {1, ir.F32}, "u8": {2, ir.U8}, "i8": {3, ir.I8}, "u16": {4, ir.U16}, "i16": {5, ir.I16}, "i32": {6, ir.I32},
	"i64": {7, ir.I64}, "bool": {9, ir.Bool}, "f16": {10, ir.F16}, "f64": {11, ir.F64}, "u32": {12, ir.U32},
	"bf16": {16, ir.BF16},
}

// Read reads the cases of a file. Empty lines and lines that begin with # are comments.
func Read(path string) (all []*Case, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(content), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		for _, one := range expand(line) {
			c, err := parse(one)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// expand returns the line for each combination of its alternatives {A|B}. Braces with equal contents get the same
// alternative.
func expand(line string) []string {
	_, rest, ok := strings.Cut(line, "{")
	if !ok {
		return []string{line}
	}
	inside, _, _ := strings.Cut(rest, "}")
	var all []string
	for _, choice := range strings.Split(inside, "|") {
		all = append(all, expand(strings.ReplaceAll(line, "{"+inside+"}", choice))...)
	}
	return all
}

// parse reads a line without alternatives.
func parse(line string) (*Case, error) {
	head, rest, ok := strings.Cut(line, ": ")
	if !ok {
		return nil, errors.New("want OP: INPUTS -> RESULTS ; ATTRIBUTES ; TOLERANCE")
	}
	c := &Case{Line: line, Domain: "com.microsoft", Op: head, Tolerance: 1e-5}
	if at := strings.LastIndex(head, ":"); at >= 0 {
		c.Domain, c.Op = head[:at], head[at+1:]
	}
	parts := strings.Split(rest, ";")
	for len(parts) < 3 {
		parts = append(parts, "")
	}
	if text := strings.TrimSpace(parts[2]); text != "" {
		var err error
		if c.Tolerance, err = strconv.ParseFloat(text, 64); err != nil {
			return nil, err
		}
	}
	h := fnv.New64a()
	h.Write([]byte(line))
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	ins, outs, _ := strings.Cut(parts[0], "->")
	// The numbers are those of the fields in ONNX's messages NodeProto, GraphProto and ModelProto.
	node, g := Message{}, Message{}
	var err error
	for i, text := range strings.Fields(ins) {
		if node, g, err = c.addInput(node, g, i, text, rng); err != nil {
			return nil, fmt.Errorf("input %s: %w", text, err)
		}
	}
	for i, text := range strings.Fields(outs) {
		if node, g, err = c.addOutput(node, g, i, text); err != nil {
			return nil, fmt.Errorf("result %s: %w", text, err)
		}
	}
	node = node.Text(4, c.Op)
	for _, text := range strings.Fields(parts[1]) {
		name, value, _ := strings.Cut(text, "=")
		a, err := attribute(name, value)
		if err != nil {
			return nil, err
		}
		node = node.Bytes(5, a)
	}
	if c.Domain != "ai.onnx" {
		node = node.Text(7, c.Domain)
	}
	g = g.Bytes(1, node).Text(2, "case")
	c.Model = Message{}.Int(1, 10).Bytes(7, g).Bytes(8, Message{}.Int(2, 21)).
		Bytes(8, Message{}.Text(1, "com.microsoft").Int(2, 1)).Bytes(8, Message{}.Text(1, "ai.onnx.ml").Int(2, 3))
	return c, nil
}

// addInput adds input i, which text describes, to the case. It returns the messages of the node and the graph g with
// the input appended. "-" is an input that is left out.
func (c *Case) addInput(node, g Message, i int, text string, rng *rand.Rand) (ofNode, ofGraph Message, err error) {
	if text == "-" {
		return node.Text(1, ""), g, nil
	}
	t, elem, err := input(fmt.Sprintf("in%d", i), text, rng)
	if err != nil {
		return node, g, err
	}
	c.Inputs = append(c.Inputs, t)
	node = node.Text(1, t.Name)
	if !t.Constant {
		return node, g.Bytes(11, Message{}.Text(1, t.Name).Bytes(2, typed(elem, t.Dims, true))), nil
	}
	m := Message{}
	for _, d := range t.Dims {
		m = m.Int(1, int64(d))
	}
	return node, g.Bytes(5, m.Int(2, elem).Text(8, t.Name).Bytes(9, t.Bytes)), nil
}

// addOutput adds output i, as addInput does. With a question mark after its type, the case does not compare it.
func (c *Case) addOutput(node, g Message, i int, text string) (ofNode, ofGraph Message, err error) {
	if text == "-" {
		return node.Text(2, ""), g, nil
	}
	typ, ignored := strings.CutSuffix(text, "?")
	elem, ok := elements[typ]
	if !ok {
		return node, g, errors.New("unknown type")
	}
	name := fmt.Sprintf("out%d", i)
	if !ignored {
		c.Outputs = append(c.Outputs, name)
	}
	return node.Text(2, name), g.Bytes(12, Message{}.Text(1, name).Bytes(2, typed(elem.number, nil, false))), nil
}

// input makes an input of a case from its text TYPE[EXTENTS]HOW, with an exclamation mark before it for a constant. It
// also returns ONNX's number of the type.
func input(name, text string, rng *rand.Rand) (t Tensor, kind int64, err error) {
	text, constant := strings.CutPrefix(text, "!")
	typ, rest, ok := strings.Cut(text, "[")
	elem, known := elements[typ]
	extents, how, closed := strings.Cut(rest, "]")
	if !ok || !known || !closed {
		return Tensor{}, 0, errors.New("want TYPE[EXTENTS]")
	}
	var dims []int
	for _, d := range strings.Split(extents, ",") {
		if d == "" {
			continue
		}
		n, err := strconv.Atoi(d)
		if err != nil {
			return Tensor{}, 0, err
		}
		dims = append(dims, n)
	}
	d, err := ir.NewData(elem.dtype, dims...)
	if err != nil {
		return Tensor{}, 0, err
	}
	if err := fill(d, how, rng); err != nil {
		return Tensor{}, 0, err
	}
	return Tensor{name, d, constant}, elem.number, nil
}

// fill sets the elements of a tensor. how is =LIST for these numbers, <N for random integers below N, *S for numbers of
// S/2 to 3*S/2, %S for numbers of -S to S, or empty for any random numbers of the dtype.
func fill(d *ir.Data, how string, rng *rand.Rand) error {
	n := d.Elems()
	values := make([]float64, n)
	if list, ok := strings.CutPrefix(how, "="); ok {
		texts := strings.Split(list, ",")
		if len(texts) != n {
			return fmt.Errorf("%d numbers for %d elements", len(texts), n)
		}
		for i, text := range texts {
			var err error
			if values[i], err = strconv.ParseFloat(text, 64); err != nil {
				return err
			}
		}
		encode(d, values)
		return nil
	}
	size := 0.0
	if how != "" {
		var err error
		if size, err = strconv.ParseFloat(how[1:], 64); err != nil {
			return err
		}
	}
	low, high := int64(0), int64(0) // of random integers
	if !d.DType.IsFloat() && d.DType != ir.Bool {
		low, high = ir.IntRange(d.DType)
		low, high = max(low, -1000), min(high, 1000)
	}
	for i := range values {
		switch {
		case strings.HasPrefix(how, "<"):
			values[i] = float64(rng.IntN(int(size)))
		case strings.HasPrefix(how, "*"):
			values[i] = size/2 + float64(size*rng.Float64())
		case strings.HasPrefix(how, "%"):
			values[i] = float64(2*size*rng.Float64()) - size
		case d.DType == ir.Bool:
			values[i] = float64(rng.IntN(2))
		case d.DType.IsFloat():
			values[i] = rng.NormFloat64()
		default:
			values[i] = float64(low + rng.Int64N(high-low+1))
		}
	}
	encode(d, values)
	return nil
}

// encode sets the elements of d to values.
func encode(d *ir.Data, values []float64) {
	if d.DType.IsFloat() {
		ir.EncodeFloats(d.Bytes, d.DType, values)
		return
	}
	list := make([]int64, len(values))
	for i, v := range values {
		list[i] = int64(v)
	}
	ir.EncodeInts(d.Bytes, d.DType, list)
}

// Fed returns the tensors that are inputs of the model, by name.
func (c *Case) Fed() map[string]*ir.Data {
	all := map[string]*ir.Data{}
	for _, t := range c.Inputs {
		if !t.Constant {
			all[t.Name] = t.Data
		}
	}
	return all
}

// samples is the largest number of elements of a result that a summary has.
const samples = 4

// Summary returns a few numbers that stand for a tensor: some of its elements, the largest magnitude, and a sum of all
// elements by weights.
func Summary(d *ir.Data) (numbers []float64, err error) {
	values, err := d.Floats()
	if err != nil {
		return nil, err
	}
	largest, sum := 0.0, 0.0
	for i, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			largest = max(largest, math.Abs(v))
			sum += float64(v * math.Cos(float64(i)))
		}
	}
	numbers = []float64{largest, sum / math.Sqrt(float64(max(len(values), 1)))}
	for k := range min(samples, len(values)) {
		numbers = append(numbers, values[k*(len(values)-1)/max(samples-1, 1)])
	}
	return numbers, nil
}

// Key identifies a case in a file of results.
func (c *Case) Key() string {
	h := fnv.New32a()
	h.Write([]byte(c.Line))
	return fmt.Sprintf("%s-%08x", c.Op, h.Sum32())
}

// Results formats the summaries of a case's results.
func (c *Case) Results(out map[string]*ir.Data) (string, error) {
	var b strings.Builder
	b.WriteString(c.Key())
	for _, name := range c.Outputs {
		d := out[name]
		if d == nil {
			return "", fmt.Errorf("there is no result %s", name)
		}
		numbers, err := Summary(d)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, " %s%s", d.DType, strings.ReplaceAll(fmt.Sprint(d.Dims), " ", ","))
		for _, v := range numbers {
			fmt.Fprintf(&b, " %.6g", v)
		}
	}
	return b.String(), nil
}

// Check compares results with a line that Results made from the right results.
func (c *Case) Check(out map[string]*ir.Data, want string) error {
	have, err := c.Results(out)
	if err != nil {
		return err
	}
	a, b := strings.Fields(have), strings.Fields(want)
	if len(a) != len(b) {
		return fmt.Errorf("results %s, want %s", have, want)
	}
	largest := 0.0 // magnitude of the current result: the first number of its summary; -1 before that
	isFloat := false
	for i := 1; i < len(b); i++ {
		y, err := strconv.ParseFloat(b[i], 64)
		if err != nil { // the type and extents of the next result
			if a[i] != b[i] {
				return fmt.Errorf("result %s, want %s", a[i], b[i])
			}
			t, err := ir.ParseDType(b[i][:strings.Index(b[i], "[")])
			if err != nil {
				return err
			}
			isFloat, largest = t.IsFloat(), -1
			continue
		}
		if largest < 0 {
			largest = math.Abs(y)
		}
		x, err := strconv.ParseFloat(a[i], 64)
		allowed := c.Tolerance
		if isFloat {
			allowed = 1e-6 + float64((c.Tolerance+1e-5)*largest)
		} else if c.Tolerance < 0.5 {
			allowed = 1e-4 * max(1, largest) // the sum has six digits
		}
		oneNaN := slices.Contains([]string{a[i], b[i]}, "NaN") && a[i] != b[i]
		if oneNaN || err != nil || math.Abs(x-y) > allowed {
			return fmt.Errorf("results %s, want %s", have, want)
		}
	}
	return nil
}
