package main

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/internal/hostmem"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/npy"
	"github.com/vkc-go/vkc/runtime"
)

// parseSymbols reads --symbol flags.
func parseSymbols(list []string) (map[string]int64, error) {
	pairs, err := parsePairs("symbol", "N", list)
	if err != nil {
		return nil, err
	}
	symbols := map[string]int64{}
	for name, text := range pairs {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 {
			return nil, usagef("--symbol %s=%s: want a number of at least 0", name, text)
		}
		symbols[name] = v
	}
	return symbols, nil
}

// checkSymbols rejects symbols that the program does not have, and values below least or above a symbol's bound. It
// replaces names that only the ONNX file uses by the program's.
func checkSymbols(sig *runtime.Signature, symbols map[string]int64, least int64) error {
	if err := useSymbolNames(sig, symbols); err != nil {
		return err
	}
	var names []runtime.Port
	for _, s := range sig.Symbols() {
		names = append(names, runtime.Port{Name: s.Name})
		if v, given := symbols[s.Name]; given && (v < least || v > s.Bound) {
			return usagef("%w", ir.OutsideBound(s.Name, v, least, s.Bound))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(symbols)) {
		if !hasPort(names, name) {
			return usagef("--symbol: there is no symbol %q; the program has %s", name, portNames(names))
		}
	}
	return nil
}

// useSymbolNames renames the keys of symbols, in place, to the names of the program's symbols. A user may name an
// extent as the ONNX file does, and such a name need not be an identifier.
func useSymbolNames(sig *runtime.Signature, symbols map[string]int64) error {
	for _, name := range slices.Sorted(maps.Keys(symbols)) {
		if ir.IsIdent(name) { // a name of the program
			continue
		}
		var meant []string
		for _, s := range sig.Symbols() {
			// The importer replaces characters and, after a clash, appends a number.
			number, ok := strings.CutPrefix(s.Name, onnx.SymbolOf(name))
			if ok && (number == "" || clashSuffix.MatchString(number)) {
				meant = append(meant, s.Name)
			}
		}
		if len(meant) == 0 {
			continue
		}
		if len(meant) > 1 {
			return usagef("--symbol %s is ambiguous, it may mean %s: use the name that vkc inspect prints", name,
				strings.Join(meant, " or "))
		}
		if _, twice := symbols[meant[0]]; twice {
			return usagef("--symbol %s and %s are the same symbol: give it once", name, meant[0])
		}
		symbols[meant[0]] = symbols[name]
		delete(symbols, name)
	}
	return nil
}

// clashSuffix matches the suffix of a symbol that was renamed to avoid a clash.
var clashSuffix = regexp.MustCompile(`^_[0-9]+$`)

// readInputs makes the tensors of the --input flags. It makes random ones last, because their shapes may depend on the
// others.
func readInputs(g *ir.Graph, flags []string, symbols map[string]int64) (map[string]*ir.Data, error) {
	sig := runtime.SignatureOf(g)
	values, err := parsePairs("input", "FILE.npy, NAME=[1,2,3] or NAME=random:SEED", flags)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !hasPort(sig.Inputs(), name) {
			return nil, usagef("--input: there is no input %q; the program has %s", name, portNames(sig.Inputs()))
		}
	}
	if err := missingInputs(sig.Inputs(), values); err != nil {
		return nil, err
	}
	for name, text := range values {
		if err := checkValue(text); err != nil {
			return nil, usagef("--input %s=%s: %w", name, text, err)
		}
	}
	known := maps.Clone(symbols)
	in := map[string]*ir.Data{}
	var random []runtime.Port
	for _, p := range sig.Inputs() {
		text := values[p.Name]
		if strings.HasPrefix(text, randomPrefix) {
			random = append(random, p)
			continue
		}
		if in[p.Name], err = readInput(p, text); err != nil {
			return nil, err
		}
		inferSymbols(known, p, in[p.Name].Dims) // extents of given inputs set symbols
	}
	if err := missingSymbols(random, known); err != nil {
		return nil, err
	}
	left := int64(maxRandomBytes) // for all random inputs together
	for _, p := range random {
		limit, err := randomLimit(g, p, known)
		if err != nil {
			return nil, err
		}
		if in[p.Name], err = randomInput(p, values[p.Name], known, limit, &left); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// checkValue returns an error if the value of an --input flag is neither random:SEED, nor a list of numbers, nor looks
// like a file. It does not read the file.
func checkValue(text string) error {
	if seed, ok := strings.CutPrefix(text, randomPrefix); ok {
		if _, err := strconv.ParseUint(seed, 10, 64); err != nil {
			return errors.New("want random:SEED, a number")
		}
		return nil
	}
	if !isLiteral(text) && !isFile(text) && !strings.ContainsAny(text, "./") {
		return errors.New("there is no such file: want FILE.npy, [1,2,3] or random:SEED")
	}
	return nil
}

// missingInputs returns an error that lists the inputs without a flag, or nil if there are none.
func missingInputs(ports []runtime.Port, values map[string]string) error {
	var missing []string
	first := ""
	for _, p := range ports {
		if _, ok := values[p.Name]; !ok {
			first = cmp.Or(first, p.Name)
			missing = append(missing, fmt.Sprintf("%s, %s", p.Name, p.Type))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return usagef("inputs are missing: pass --input %s=FILE.npy, %[1]s=[1,2,3] or %[1]s=random:SEED; missing: %s",
		first, strings.Join(missing, "; "))
}

// missingSymbols returns an error that lists the symbols without a value in the shapes of random inputs, or nil.
func missingSymbols(random []runtime.Port, known map[string]int64) error {
	var flags []string
	for _, p := range random {
		for _, d := range p.Type.Shape {
			flag := fmt.Sprintf("--symbol %s=N (at most %d)", d.Sym, d.Bound)
			// The name of a derived symbol, such as S+T, is no identifier. Its value follows from the others.
			if _, ok := known[d.Sym]; !ok && ir.IsIdent(d.Sym) && !slices.Contains(flags, flag) {
				flags = append(flags, flag)
			}
		}
	}
	if len(flags) == 0 {
		return nil
	}
	return usagef("the sizes of random inputs are unknown: pass %s", strings.Join(flags, ", "))
}

// readInput returns the tensor of an input from a file, or from a list of numbers. It returns an error if the array has
// another dtype than the input.
func readInput(p runtime.Port, text string) (*ir.Data, error) {
	if !isLiteral(text) {
		d, err := npy.ReadFile(text)
		if err != nil {
			return nil, fmt.Errorf("input %q: %w", p.Name, err)
		}
		if descr, ok := npy.Descr(p.Type.DType); ok && d.DType != p.Type.DType {
			return nil, usagef("input %q is %s%v, want %s: save the array again with a.astype(%q)", p.Name, d.DType,
				d.Dims, p.Type, descr)
		}
		if d, err = npy.As(d, p.Type.DType); err != nil {
			return nil, usagef("input %q: %w", p.Name, err)
		}
		return d, nil
	}
	d, err := npy.ParseLiteral(text, p.Type.DType)
	if err != nil {
		return nil, usagef("--input %s: %w", p.Name, err)
	}
	return d, nil
}

// isLiteral reports whether a value consists of numbers, and is not a file name.
func isLiteral(text string) bool {
	if strings.HasPrefix(text, "[") || text == "true" || text == "false" {
		return true
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && !isFile(text)
}

// isFile reports whether path exists.
func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// inferSymbols adds to known the symbols that follow from the shape dims of input p's tensor. The run checks later
// that all tensors agree.
func inferSymbols(known map[string]int64, p runtime.Port, dims []int) {
	if len(dims) != len(p.Type.Shape) {
		return
	}
	for i, d := range p.Type.Shape {
		if _, ok := known[d.Sym]; !ok && ir.IsIdent(d.Sym) && d.Mul > 0 {
			known[d.Sym] = (int64(dims[i]) - d.Add) / d.Mul
		}
	}
}

const randomPrefix = "random:"

// maxRandomBytes limits the total size of a run's random inputs. They are made in memory, and most devices bind no
// buffer above 4 GiB.
const maxRandomBytes = 4 << 30

// maxRandomInt bounds random integers.
const maxRandomInt = 100

// randomLimit returns the exclusive upper bound of random integers for input p. If the graph uses the input as indices,
// the bound is the extent that they index, so that all values are valid.
func randomLimit(g *ir.Graph, p runtime.Port, symbols map[string]int64) (int64, error) {
	limit := int64(maxRandomInt)
	for _, r := range g.IndexRanges() {
		if r.Input != p.Name {
			continue
		}
		extent, err := r.Extent.Eval(symbols)
		if err != nil {
			return 0, fmt.Errorf("input %q: %w", p.Name, err)
		}
		limit = min(limit, max(extent, 1))
	}
	return limit, nil
}

// randomInput makes a tensor that depends only on the seed, the input's name and the limit. Floats are uniform in [-1,
// 1), integers are in [0, limit), and bools are 0 or 1 with equal probability. left is the number of bytes still
// allowed; randomInput reduces it.
func randomInput(p runtime.Port, text string, symbols map[string]int64, limit int64, left *int64) (*ir.Data, error) {
	seed, err := strconv.ParseUint(strings.TrimPrefix(text, randomPrefix), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("input %q: %w", p.Name, err)
	}
	dims, err := p.Type.Shape.Eval(symbols)
	if err != nil {
		return nil, fmt.Errorf("input %q: %w", p.Name, err)
	}
	want := ir.Data{DType: p.Type.DType, Dims: dims}
	n, err := p.Type.DType.BytesFor(int64(want.Elems()))
	if err != nil {
		return nil, fmt.Errorf("input %q: %w", p.Name, err)
	}
	*left -= n
	if *left < 0 {
		return nil, fmt.Errorf("input %q is %s of %s: random inputs may have at most %s together; pass a smaller "+
			"--symbol, or a FILE.npy", p.Name, &want, size(n), size(maxRandomBytes))
	}
	name := fnv.New64a()
	name.Write([]byte(p.Name))
	rng := rand.New(rand.NewPCG(seed, name.Sum64()))
	if err := hostmem.Check(n); err != nil {
		return nil, fmt.Errorf("input %q: %w", p.Name, err)
	}
	d, err := ir.NewData(p.Type.DType, dims...)
	if err != nil {
		return nil, fmt.Errorf("input %q: %w", p.Name, err)
	}
	return fillRandom(rng, d, limit)
}

// randomChunk is the number of elements generated at a time.
const randomChunk = 1 << 16

// fillRandom fills d with random values: floats in [-1, 1), integers in [0, limit).
func fillRandom(rng *rand.Rand, d *ir.Data, limit int64) (*ir.Data, error) {
	if d.DType.IsBlock() {
		return nil, fmt.Errorf("%s: vkc makes no random blocks: pass a FILE.npy", d)
	}
	if d.DType == ir.Bool { // 0 or 1
		limit = 2
	}
	floats, ints := make([]float64, randomChunk), make([]int64, randomChunk)
	left := d.Elems()
	for part := range slices.Chunk(d.Bytes, randomChunk*d.DType.Bits()/8) {
		n := min(left, randomChunk)
		left -= n
		for i := range n {
			if d.DType.IsFloat() {
				floats[i] = float64(2*rng.Float64()) - 1 // the conversion prevents a fused multiply-add
			} else {
				ints[i] = rng.Int64N(limit)
			}
		}
		if d.DType.IsFloat() {
			ir.EncodeFloats(part, d.DType, floats[:n])
		} else {
			ir.EncodeInts(part, d.DType, ints[:n])
		}
	}
	return d, nil
}

func hasPort(ports []runtime.Port, name string) bool {
	return slices.ContainsFunc(ports, func(p runtime.Port) bool { return p.Name == name })
}

// portNames lists ports for an error message.
func portNames(ports []runtime.Port) string {
	if len(ports) == 0 {
		return "none"
	}
	names := make([]string, len(ports))
	for i, p := range ports {
		names[i] = ir.Printable(p.Name)
	}
	return strings.Join(names, ", ")
}
