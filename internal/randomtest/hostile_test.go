package randomtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/internal/graphgen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime/cpu"
)

// Limits of memory for reading a graph.json file: a multiple of its size, plus a constant for values that a short text
// stands for. Limits of what a mutant may compute.
const (
	mutantBytesPerByte = 200
	mutantBytes        = 128 << 20
	mutantElems        = 1 << 16
	mutantTime         = 20 * time.Second
)

// TestRandomMutants changes values, fields and items in the files of random graphs. Each mutant is an error, or a valid
// graph that is the same after it is written and read again, and that compiles and runs without a panic. Reading it
// takes no more memory than the limits above say.
func TestRandomMutants(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that all allocations are measured
	caps := devtest.Profile(t, "generic")
	graphs, ran := 0, 0
	n := cmp.Or(*randomGraphs, 300)
	for i := range uint64(n) {
		seed := *firstSeed + i
		rng := rand.New(rand.NewPCG(seed, 0x6d757461)) // "muta" in ASCII: any constant would do
		g, err := graphgen.New(seed/4, graphgen.Options{Ops: 1 + rng.IntN(6), Derived: seed%8 < 2})
		if err != nil {
			t.Fatal(err)
		}
		text, err := g.MarshalJSONText()
		if err != nil {
			t.Fatal(err)
		}
		mutant := mutated(t, rng, text)
		mutantGraph, didRun, err := useMutant(mutant, caps)
		if err != nil {
			t.Errorf("mutant %d: %v\n%s", seed, err, mutant)
		}
		if mutantGraph {
			graphs++
		}
		if didRun {
			ran++
		}
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapAlloc > 1<<28 {
			runtime.GC()
		}
	}
	t.Logf("%d mutants: %d are graphs, %d ran", n, graphs, ran)
	if graphs < n/10 || ran < n/15 {
		t.Errorf("%d of %d mutants are graphs, and %d ran: too few to mean anything", graphs, n, ran)
	}
}

// useMutant reads a file. If it is a graph, useMutant writes it, compiles it, and runs it if it is small.
func useMutant(file []byte, caps device.Caps) (valid, ran bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic, %v\n%s", p, debug.Stack())
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g, err := ir.ReadJSON("mutant", file)
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	if limit := uint64(mutantBytes + mutantBytesPerByte*len(file)); used > limit {
		return false, false, fmt.Errorf("reading took %d bytes, limit %d; %w", used, limit, err)
	}
	if err != nil {
		return false, false, checkErrorText(err)
	}
	if err := g.Verify(); err != nil {
		return false, false, fmt.Errorf("the reader made an invalid graph: %w", err)
	}
	if err := sameAfterWriting(g); err != nil {
		return true, false, err
	}
	if _, err := compiler.Lower(context.Background(), g, caps, nil); err != nil {
		if err := checkErrorText(err); err != nil {
			return true, false, err
		}
	}
	if !isSmall(g) {
		return true, false, nil
	}
	values := graphgen.Values{Seed: 1, Graph: g}
	exe, err := cpu.Load(g, values, cpu.Options{MemoryLimit: 1 << 30, Workers: 1})
	if err != nil {
		return true, false, checkErrorText(err)
	}
	defer exe.Close()
	for i, symbols := range values.Symbols(4) {
		in, err := values.Inputs(symbols, i)
		if err != nil {
			return true, ran, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), mutantTime) // clock: a loop may run for hours
		_, err = exe.Run(ctx, in)
		cancel()
		if err := checkErrorText(err); err != nil {
			return true, ran, err
		}
		ran = true
	}
	return true, ran, nil
}

// checkErrorText returns an error if an error has several lines, or says that a fault is vkc's own.
func checkErrorText(err error) error {
	if err == nil {
		return nil
	}
	list := []error{err}
	if all := (ir.ReadErrors)(nil); errors.As(err, &all) {
		list = all.Unwrap()
	}
	for _, one := range list {
		text := one.Error()
		if strings.Contains(text, "\n") || strings.Contains(text, "internal error") || strings.Contains(text, "panic") {
			return fmt.Errorf("the error is %q", text)
		}
	}
	return nil
}

// sameAfterWriting returns an error if a graph is another one after it is written and read, as JSON or as text.
func sameAfterWriting(g *ir.Graph) error {
	written, err := g.MarshalJSONText()
	if err != nil {
		return fmt.Errorf("write a graph that was read: %w", err)
	}
	asJSON, err := ir.ReadJSON("again", written)
	if err != nil {
		return fmt.Errorf("read what was written: %w", err)
	}
	asText, err := ir.Parse(g.String())
	if err != nil {
		return fmt.Errorf("parse what was printed: %w\n%s", err, g)
	}
	if h := g.HashString(); asJSON.HashString() != h || asText.HashString() != h {
		return fmt.Errorf("another graph after JSON: %t, after text: %t", asJSON.HashString() != h,
			asText.HashString() != h)
	}
	if again, err := asJSON.MarshalJSONText(); err != nil || !bytes.Equal(again, written) {
		return fmt.Errorf("the second JSON differs from the first, error %w", err)
	}
	if asText.String() != g.String() {
		return fmt.Errorf("the second text differs from the first:\n%s\n%s", g, asText)
	}
	return nil
}

// isSmall reports whether a graph, with its bodies, takes little time and memory to run.
func isSmall(g *ir.Graph) bool {
	return !slices.ContainsFunc(g.Nodes(), func(n *ir.Node) bool {
		isLarge := func(body *ir.Graph) bool { return !isSmall(body) }
		if n.Shape().MaxElems() > mutantElems || slices.ContainsFunc(n.Bodies(), isLarge) {
			return true
		}
		trips := n.Attrs().Shape("trips")
		return len(trips) == 1 && trips[0].Max() > 16
	})
}

// limits are numbers at which something overflows or changes.
var limits = []string{"0", "1", "-1", "2", "7", "8", "9", "31", "32", "33", "127", "128", "255", "256", "-128", "32767",
	"65535", "65536", "1048576", "16777216", "16777217", "2147483647", "2147483648", "-2147483648", "4294967295",
	"4294967296", "1099511627776", "1099511627777", "4611686018427387904", "9223372036854775807",
	"-9223372036854775808", "9223372036854775808", "1e308", "-1e308", "1e-320", "1e400", "0.5", "-0", "3.0"}

// words are strings that files have in various places.
var words = []string{"", "T", "S", "T+1", "T-1", "2*T", "T*T", "floor(T/2)", "floor((T+1)/3)", "floor(T/0)", "-T",
	"T*9223372036854775807", "max(T,1)", "f32", "f16", "bf16", "f64", "f8e4m3", "i64", "i32", "u32", "i16", "u16", "i8",
	"u8", "bool", "q4_0", "q8_0", "q4_k", "iq1_s", "inf", "-inf", "nan:7fc00000", "nan:ff", "nan:", "full", "half", "int8",
	"half_sums", "bf16x3", "same", "reflect", "wrap", "edge", "constant", "\x00", "é", "\"", "%0", "add", "input", "state",
	"weight", "const", "loop", "if", "result", "matmul", "concat"}

// mutated returns a file with 1 or 2 changes.
func mutated(t *testing.T, rng *rand.Rand, file []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(file))
	d.UseNumber()
	var root any
	if err := d.Decode(&root); err != nil {
		t.Fatal(err)
	}
	if rng.IntN(8) > 0 {
		withoutTypes(root)
	}
	for range 1 + rng.IntN(8)/6 {
		root = mutate(rng, root, places(root))
	}
	out, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// withoutTypes removes the types of nodes, which are optional. Otherwise most changes would contradict them.
func withoutTypes(v any) {
	switch v := v.(type) {
	case map[string]any:
		if v["op"] != nil {
			delete(v, "type")
		}
		for _, item := range v {
			withoutTypes(item)
		}
	case []any:
		for _, item := range v {
			withoutTypes(item)
		}
	}
}

// place is a value within a file.
type place struct {
	value any
	set   func(v any)
}

// places lists all values of a tree.
func places(v any) (list []place) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			list = append(list, place{v[key], func(to any) { v[key] = to }})
			list = append(list, places(v[key])...)
		}
	case []any:
		for i := range v {
			list = append(list, place{v[i], func(to any) { v[i] = to }})
			list = append(list, places(v[i])...)
		}
	}
	return list
}

// mutate changes one value of a tree.
func mutate(rng *rand.Rand, root any, list []place) any {
	if len(list) == 0 {
		return root
	}
	at := list[rng.IntN(len(list))]
	switch v := at.value.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		if len(keys) == 0 {
			break
		}
		key := keys[rng.IntN(len(keys))]
		if rng.IntN(2) == 0 {
			delete(v, key)
		} else {
			v[words[rng.IntN(len(words))]] = copied(v[key])
		}
		return root
	case []any:
		v = slices.Clone(v)
		i := rng.IntN(len(v) + 1)
		switch {
		case len(v) == 0 || rng.IntN(4) == 0:
			v = slices.Insert(v, i, any(json.Number(limits[rng.IntN(len(limits))])))
		case rng.IntN(3) == 0:
			v = slices.Delete(v, i%len(v), i%len(v)+1)
		case rng.IntN(2) == 0:
			v = slices.Insert(v, i, copied(v[rng.IntN(len(v))]))
		default:
			rng.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
		}
		at.set(v)
		return root
	case json.Number:
		if rng.IntN(4) > 0 {
			at.set(json.Number(limits[rng.IntN(len(limits))]))
			return root
		}
	case string:
		if rng.IntN(3) > 0 {
			// Another string of the file, such as the id of another node, or any word.
			to := words[rng.IntN(len(words))]
			if other, ok := list[rng.IntN(len(list))].value.(string); ok && rng.IntN(3) > 0 {
				to = other
			}
			at.set(to)
			return root
		}
	case bool:
		at.set(!v)
		return root
	}
	at.set(copied(list[rng.IntN(len(list))].value))
	return root
}

// copied returns a deep copy of a value.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, item := range v {
			out[key] = copied(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = copied(item)
		}
		return out
	}
	return v
}
