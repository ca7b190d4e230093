package onnx

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// A Case is a model with inputs and expected outputs, in the layout of ONNX's own tests: a folder with model.onnx and
// test_data_set_0, which has input_0.pb, output_0.pb and so on.
type Case struct {
	Name   string // the folder, relative to the searched one
	Folder string // of model.onnx
	Data   string // the folder of inputs and outputs
}

// Cases finds all cases in a folder and in the folders below, in alphabetical order. It follows links, and visits each
// folder once.
func Cases(folder string) ([]Case, error) { return cases(folder, ".", map[string]bool{}) }

// cases returns the test cases in folder/name and below: a case for each folder of data of each model.onnx. seen has
// the folders that were visited, which it skips.
func cases(folder, name string, seen map[string]bool) (list []Case, err error) {
	dir := filepath.Join(folder, name)
	path, err := filepath.EvalSymlinks(dir)
	if err != nil || seen[path] {
		return nil, err
	}
	seen[path] = true
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(dir, e.Name()))
		switch {
		case err != nil && e.Type()&os.ModeSymlink != 0: // a link to nothing
		case err != nil:
			return nil, err
		case info.IsDir():
			below, err := cases(folder, filepath.Join(name, e.Name()), seen)
			if err != nil {
				return nil, err
			}
			list = append(list, below...)
		case e.Name() == "model.onnx":
			sets, err := filepath.Glob(filepath.Join(escaped(dir), "test_data_set_*"))
			if err != nil {
				return nil, err
			}
			for _, set := range sets {
				caseName := name
				if len(sets) > 1 {
					caseName += "/" + strings.TrimPrefix(filepath.Base(set), "test_data_set_")
				}
				list = append(list, Case{Name: filepath.ToSlash(caseName), Folder: dir, Data: set})
			}
		}
	}
	return list, nil
}

// escaped returns a pattern for filepath.Glob that matches only the given path.
func escaped(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// Loaded is a case with its graph, inputs and expected outputs, ready to run.
type Loaded struct {
	File *File
	// Inputs are the graph's inputs, by name.
	Inputs map[string]*ir.Data
	// Want are the expected outputs, by name.
	Want map[string]*ir.Data
}

// Load opens the model of a case. Inputs that must be known when the graph is built, such as shapes, become constants.
// If that is not enough, symbolic extents become numbers.
func (t Case) Load() (_ *Loaded, err error) {
	path := filepath.Join(t.Folder, "model.onnx")
	content, err := inputfile.Read(path)
	if err != nil {
		return nil, err
	}
	r := &reader{src: filefmt.Source{Format: "onnx", Path: path}}
	model, err := r.model(content)
	if err != nil {
		return nil, err
	}
	in, err := t.inputs(model)
	if err != nil {
		return nil, err
	}
	l := &Loaded{Inputs: in.given}
	if l.File, err = in.open(path); err != nil {
		return nil, err
	}
	for name := range l.Inputs { // inputs that have become constants
		if _, ok := l.File.Graph.Named(name); !ok {
			delete(l.Inputs, name)
		}
	}
	if l.Want, err = t.want(model, l.File); err != nil {
		return nil, errors.Join(err, l.File.Close())
	}
	return l, nil
}

// caseInputs holds the inputs of a case.
type caseInputs struct {
	given map[string]*ir.Data  // tensors and elements of lists, by their names in the graph
	lists map[string][]ir.Type // types of the elements of lists, by name
	sizes map[string]ir.Dim    // values of the model's symbolic extents, by name
}

// inputs reads the inputs of a case from its files.
func (t Case) inputs(model *Model) (*caseInputs, error) {
	initialized := map[string]bool{}
	for _, d := range model.Graph.Initializers {
		initialized[d.Name] = true
	}
	c := &caseInputs{given: map[string]*ir.Data{}, lists: map[string][]ir.Type{}, sizes: map[string]ir.Dim{}}
	next := 0
	for _, in := range model.Graph.Inputs {
		if initialized[in.Name] {
			continue
		}
		list, err := t.read("input", next, in.Type)
		if err != nil {
			return nil, err
		}
		next++
		if in.Type.Kind != KindTensor {
			c.addList(in, list)
			continue
		}
		if len(list) != 1 {
			return nil, fmt.Errorf("input %q: %d tensors", in.Name, len(list))
		}
		c.given[in.Name] = list[0]
		for i, d := range in.Type.Shape {
			if d.Size < 0 && i < len(list[0].Dims) {
				c.sizes[extentName(in, i)] = ir.D(list[0].Dims[i])
			}
		}
	}
	return c, nil
}

// addList adds an input that is a sequence or an optional.
func (c *caseInputs) addList(in Value, list []*ir.Data) {
	types := []ir.Type{}
	for i, d := range list {
		types = append(types, ir.Type{DType: d.DType, Shape: ir.ShapeOf(d.Dims...)})
		c.given[fmt.Sprintf("%s.%d", in.Name, i)] = d
	}
	if in.Type.Kind == KindOptional && len(list) == 1 {
		c.given[in.Name] = list[0]
	}
	c.lists[in.Name] = types
}

// open opens the model with no input constant and all extents symbolic. While the model cannot be built, it makes the
// inputs constant that the error names, and at last it makes the extents numbers.
func (c *caseInputs) open(path string) (*File, error) {
	o := Options{Inputs: map[string]*ir.Data{}, Lists: c.lists}
	for {
		f, err := Open(path, o)
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) {
			return f, err
		}
		more := false
		for _, name := range unsupported.Inputs {
			if d, ok := c.given[name]; ok && o.Inputs[name] == nil {
				o.Inputs[name], more = d, true
			}
		}
		if !more && o.Dims == nil && len(c.sizes) > 0 {
			o.Dims, more = c.sizes, true
		}
		if !more {
			return nil, err
		}
	}
}

// want reads the expected outputs, by their names in the graph.
func (t Case) want(model *Model, f *File) (map[string]*ir.Data, error) {
	want := map[string]*ir.Data{}
	for i, out := range model.Graph.Outputs {
		list, err := t.read("output", i, out.Type)
		if err != nil {
			return nil, err
		}
		if len(list) != len(f.Outputs[i]) {
			return nil, fmt.Errorf("output %q has %d tensors, want %d", out.Name, len(f.Outputs[i]), len(list))
		}
		for k, d := range list {
			want[f.Outputs[i][k]] = d
		}
	}
	return want, nil
}

// read reads input or output i of a case from its file.
func (t Case) read(kind string, i int, of Type) ([]*ir.Data, error) {
	path := filepath.Join(t.Data, kind+"_"+strconv.Itoa(i)+".pb")
	m, err := mmap.Open(path)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	var list []*ir.Data
	err = mmap.Guard(func() error {
		list, err = ReadTensors(path, slices.Clone(m.Bytes()), of)
		for _, d := range list {
			if of.Elem.DType() == ir.BF16 && d.DType == ir.U16 { // ONNX's tests store bf16 as its bits
				d.DType = ir.BF16
			}
		}
		return err
	})
	return list, err
}

// Compare returns an error unless got is close to want: equal dtype and shape, equal integers, and floats by the
// criterion of ONNX's own tests: |got-want| at most absolute + relative*|want|, and NaN for NaN.
func Compare(got, want *ir.Data, relative, absolute float64) error {
	switch {
	case got == nil:
		return errors.New("it is missing")
	case got.DType != want.DType || !slices.Equal(got.Dims, want.Dims):
		return fmt.Errorf("it is %s, want %s", got, want)
	}
	if !want.DType.IsFloat() {
		a, err := got.Ints()
		b, err2 := want.Ints()
		for i := range b {
			if a[i] != b[i] {
				return fmt.Errorf("element %d is %d, want %d", i, a[i], b[i])
			}
		}
		return errors.Join(err, err2)
	}
	a, err := got.Floats()
	b, err2 := want.Floats()
	worst, at := 0.0, -1
	for i, w := range b {
		g := a[i]
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		over := math.Abs(g-w) / (absolute + float64(relative*math.Abs(w)))
		if !(over <= 1) && !(over <= worst) { // the negations also find NaN
			worst, at = over, i
		}
	}
	if at >= 0 {
		return fmt.Errorf("element %d is %v, want %v: the error is %.3g times the allowed one", at, a[at], b[at], worst)
	}
	return errors.Join(err, err2)
}
