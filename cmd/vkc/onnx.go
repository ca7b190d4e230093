package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/npy"
	"github.com/vkc-go/vkc/runtime"
)

// onnxFlags give values that an ONNX model leaves open: extents, their bounds, and inputs that the graph needs as
// constants.
type onnxFlags struct {
	dims, bounds, constants []string
	narrow                  bool
	example                 []string // the flags --input of a run
	fixed                   []string // inputs of example that became constants
	fitted                  bool     // whether the graph is for inputs of the example's extents alone
}

// add declares the flags.
func (f *onnxFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.dims, "dim", nil,
		"with an ONNX model: `NAME=N`, the value of the named extent; or NAME=32*W, for a symbol W; or NAME=OTHER, "+
			"another extent with the same value; may be repeated")
	cmd.Flags().StringArrayVar(&f.bounds, "bound", nil, "with an ONNX model: `NAME=N`, the upper bound of a named "+
		"extent "+
		"(default "+strconv.Itoa(onnx.DefaultBound)+"), or of the trips of a named Loop node if their number is known "+
		"only in a run; may be repeated")
	cmd.Flags().StringArrayVar(&f.constants, "constant", nil, "with an ONNX model: `NAME=VALUE`, the value (FILE.npy "+
		"or integers) of an input that is constant, such as a shape; may be repeated")
	cmd.Flags().BoolVar(&f.narrow, "narrow", false, "with an ONNX model: compute float64 in f32 and int64 in i32, "+
		"unless a constant needs more; inputs and outputs keep their types")
}

func (f *onnxFlags) given() bool { return len(f.dims)+len(f.bounds)+len(f.constants) > 0 || f.narrow }

// open builds the graph of a model.
func (f *onnxFlags) open(path string) (*onnx.File, error) {
	o := onnx.Options{Inputs: map[string]*ir.Data{}}
	var err error
	if o.Bounds, err = parseNumbers("bound", f.bounds); err != nil {
		return nil, err
	}
	if o.Dims, err = parseDims(f.dims, o.Bounds); err != nil {
		return nil, err
	}
	values, err := parsePairs("constant", "FILE.npy or NAME=[1,2,3]", f.constants)
	if err != nil {
		return nil, err
	}
	for name, text := range values {
		if isLiteral(text) {
			if o.Inputs[name], err = npy.ParseLiteral(text, ir.I64); err != nil {
				return nil, usagef("--constant %s: %w", name, err)
			}
		} else if o.Inputs[name], err = npy.ReadFile(text); err != nil {
			return nil, fmt.Errorf("--constant %s: %w", name, err)
		}
	}
	m, err := onnx.Open(path, o)
	// A second try with the extents of the example's inputs may succeed. If it fails too, the first error counts.
	if unsupported := (*onnx.UnsupportedError)(nil); errors.As(err, &unsupported) {
		if other, fits := f.openFitted(path, o); fits == nil {
			m, err = other, nil
		}
	}
	if wrong := (*onnx.NameError)(nil); errors.As(err, &wrong) {
		err = usagef("%w", err)
	}
	if err == nil && f.narrow {
		if m.Graph, err = ir.Narrow(m.Graph); err != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return m, err
}

// openFitted builds the graph of an ONNX model for inputs with the extents of the files of --input. If the model also
// needs the values of some inputs when it is built, the files' values become constants of the graph. f.fixed then has
// the names of these inputs.
func (f *onnxFlags) openFitted(path string, o onnx.Options) (m *onnx.File, err error) {
	file, err := onnx.Read(path)
	if err != nil {
		return nil, err
	}
	model := file.Model
	defer func() { err = errors.Join(err, file.Close()) }()
	texts, err := parsePairs("input", "FILE.npy", f.example)
	if err != nil {
		return nil, err
	}
	example := map[string]*ir.Data{}
	for _, in := range model.Graph.Inputs {
		t := in.Type.Elem.DType()
		if text := texts[in.Name]; text != "" && !strings.HasPrefix(text, randomPrefix) && t != ir.Invalid {
			port := runtime.Port{Name: in.Name, Type: ir.Type{DType: t}}
			if example[in.Name], err = readInput(port, text); err != nil {
				return nil, err
			}
		}
	}
	// First with the extents alone. An UnsupportedError names the inputs whose values are missing.
	if m, err = onnx.Open(path, model.ForInputs(o, example, nil)); err != nil {
		unsupported := (*onnx.UnsupportedError)(nil)
		if !errors.As(err, &unsupported) {
			return nil, err
		}
		m, err = onnx.Open(path, model.ForInputs(o, example, unsupported.Inputs))
		for _, name := range unsupported.Inputs {
			if example[name] != nil {
				f.fixed = append(f.fixed, name)
			}
		}
	}
	f.fitted = err == nil
	return m, err
}

// adviseFlags prints notes on the flags that would make an ONNX model smaller or faster: --bound or --dim for extents
// without a number, and a narrower type for 64-bit integers. weights are the weights that came with the graph.
func (f *onnxFlags) adviseFlags(a *app, weights vkc.Weights) {
	m, ok := weights.(*onnx.File)
	if !ok {
		return
	}
	if free := f.unboundedSymbols(m.Graph); len(free) > 0 {
		a.note("%s may be up to %d in a run, by default: --bound %[3]s=N sets an upper bound, and --dim %[3]s=N a "+
			"fixed value, which may be faster", strings.Join(free, ", "), onnx.DefaultBound,
			free[0])
	}
	if !f.narrow {
		adviseNarrow(a, m.Graph)
	}
}

// unboundedSymbols returns the symbols of a graph that no flag mentions and that have the default bound.
func (f *onnxFlags) unboundedSymbols(g *ir.Graph) (names []string) {
	for _, name := range g.Symbols() {
		mentioned := slices.ContainsFunc(slices.Concat(f.dims, f.bounds), func(flag string) bool {
			given, value, _ := strings.Cut(flag, "=")
			return given == name || onnx.SymbolOf(given) == name || strings.Contains(value, name)
		})
		if bound, _ := g.SymbolBound(name); !mentioned && bound == onnx.DefaultBound {
			names = append(names, name)
		}
	}
	return names
}

// adviseNarrow recommends --narrow if it saves memory. It is silent for graphs with 64-bit values only in a few
// indices.
func adviseNarrow(a *app, g *ir.Graph) {
	ops, bytes, allBytes := ir.Wide(g)
	if ops[ir.F64] == 0 && bytes[ir.I64]*16 < allBytes {
		return
	}
	narrow, err := ir.Narrow(g)
	if err != nil {
		return
	}
	opsAfter, bytesAfter, _ := ir.Wide(narrow)
	narrowed := ops[ir.F64] + ops[ir.I64] - opsAfter[ir.F64] - opsAfter[ir.I64]
	saved := (bytes[ir.F64] + bytes[ir.I64] - bytesAfter[ir.F64] - bytesAfter[ir.I64]) / 2 // half of the narrowed bytes
	if narrowed > 0 && saved > 0 {
		a.note("%s in f64 and %d in i64: --narrow computes %d of them in f32 and i32, which saves up to %s of memory "+
			"and also runs on devices without 64-bit types", plural(ops[ir.F64], "op"), ops[ir.I64], narrowed,
			size(saved))
	}
}

// parseNumbers parses the values of a repeated flag, each of the form NAME=N.
func parseNumbers(flag string, list []string) (map[string]int, error) {
	pairs, err := parsePairs(flag, "N", list)
	if err != nil {
		return nil, err
	}
	numbers := map[string]int{}
	for name, text := range pairs {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return nil, usagef("--%s %s=%s: want a number of at least 0", flag, name, text)
		}
		numbers[name] = int(n)
	}
	return numbers, nil
}

// spelledName matches a symbol's name as an ONNX file may spell it, but no expression.
var spelledName = regexp.MustCompile(`^[\w.:]+$`)

// parseDims parses the values of --dim, each of the form NAME=EXPRESSION. bounds has the values of --bound, which
// become the bounds of symbols in the expressions.
func parseDims(list []string, bounds map[string]int) (map[string]ir.Dim, error) {
	pairs, err := parsePairs("dim", "N or NAME=32*W", list)
	if err != nil {
		return nil, err
	}
	dims := map[string]ir.Dim{}
	for name, text := range pairs {
		// A name alone is a dimension's name as the model spells it, which the graph may spell otherwise.
		if _, err := strconv.Atoi(text); err != nil && spelledName.MatchString(text) {
			text = onnx.SymbolOf(text)
		}
		dims[name], err = ir.ParseDimOf(text, func(symbol string) (ir.Dim, error) {
			for name, n := range bounds {
				if name == symbol || onnx.SymbolOf(name) == symbol {
					return ir.Symbol(symbol, n), nil
				}
			}
			return ir.Symbol(symbol, onnx.DefaultBound), nil
		})
		if err != nil {
			return nil, usagef("--dim %s: %w", name, err)
		}
	}
	return dims, nil
}

// isONNX reports whether the file name ends in .onnx. The format has no magic number.
func isONNX(path string) bool { return strings.EqualFold(filepath.Ext(path), ".onnx") }
