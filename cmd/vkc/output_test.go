package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/frontend/safetensors"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// full is a disk without room.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestFullDisk: whatever a command prints, it fails if that is lost.
func TestFullDisk(t *testing.T) {
	devtest.EmptyCache(t)
	weights := mlpWeights(t)
	bundle, quantized := filepath.Join(t.TempDir(), "m.vkb"), filepath.Join(t.TempDir(), "q.gguf")
	lines := [][]string{
		{}, {"help"}, {"run", "--help"}, {"version"}, {"version", "--json"}, {"completion", "bash"}, {"cache"}, {"cache", "ls"}, {"cache", "verify"}, {"cache", "clear"},
		{"devices"}, {"devices", "--json"}, {"doctor"}, {"doctor", "--json"},
		{"dump", mlpGraph}, {"dump", mlpGraph, "--all"}, {"dump", mlpGraph, "--fusion"}, {"dump", mlpGraph, "--stage", "kernels"},
		{"dump", mlpGraph, "--stage", "plan"}, {"dump", mlpGraph, "--stage", "glsl"}, {"dump", mlpGraph, "--kernel", "0"},
		{"inspect", weights}, {"inspect", weights, "--json"}, {"quantize", weights, "-o", quantized, "--type", "f16"},
		mlpArgs(t, "--device", "cpu"), mlpArgs(t, "--device", "cpu", "--check", "--json"),
		{"verify", "--ops", "--device", "cpu", "--filter", "^neg/f32/1$"},
	}
	if needsTools() == nil {
		lines = append(lines, []string{"compile", mlpGraph, "-o", bundle, "--target", "generic"},
			[]string{"inspect", bundle}, []string{"dump", bundle, "--stage", "spirv"})
	}
	for _, line := range lines {
		t.Run(strings.Join(line, " "), func(t *testing.T) {
			var stderr strings.Builder
			if code := execute(context.Background(), line, full{}, &stderr); code != exitFailure ||
				!strings.Contains(stderr.String(), errFull.Error()) {
				t.Errorf("exit code %d\n%s", code, stderr.String())
			}
		})
	}
}

// FuzzOutput: text on a terminal shows all control characters, however the writes are divided, and a JSON string of it
// has the same content.
func FuzzOutput(f *testing.F) {
	f.Add("plain\ttext\n", 3)
	f.Add("\x1b[31mred\u009b2J\u202e\U000e0001\x7f\xc3", 1)
	f.Add("\xf0\x9f\x98\x80 é\xff\xfe", 2)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		var got strings.Builder
		o := newOutput(&got)
		for rest := text; rest != ""; {
			n := min(max(cut, 1), len(rest))
			fmt.Fprint(o, rest[:n])
			rest = rest[n:]
		}
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		harmless(t, got.String())
		control := func(r rune) bool { return r != '\n' && r != '\t' && !strconv.IsPrint(r) }
		if utf8.ValidString(text) && !strings.ContainsFunc(text, control) && got.String() != text {
			t.Errorf("%q became %q", text, got.String())
		}
		var before, after bytes.Buffer
		enc := json.NewEncoder(&before)
		if err := enc.Encode(text); err != nil {
			t.Fatal(err)
		}
		o = newOutput(&after)
		o.Write(before.Bytes())
		o.Flush()
		var was, is string
		if err := errors.Join(json.Unmarshal(before.Bytes(), &was), json.Unmarshal(after.Bytes(), &is)); err != nil ||
			was != is {
			t.Errorf("%q became %q: %v", was, is, err)
		}
	})
}

// harmless checks that text can command no terminal.
func harmless(t *testing.T, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && r != '\t' && !strconv.IsPrint(r) || r == utf8.RuneError &&
			!strings.HasPrefix(text[i:], "\ufffd") {
			t.Fatalf("%q at byte %d of\n%q", r, i, text)
		}
	}
}

// FuzzNames: a graph and a weights file with arbitrary names are printed in the same number of lines as with plain
// names, without control characters.
func FuzzNames(f *testing.F) {
	f.Add("blk.0.weight")
	f.Add("a\nvkc: all is well")
	f.Add("\x1b]0;title\x07\x1b[2J\r")
	f.Add("x\u2028y\u009b31m \t\"\\ //*/ \u202e")
	f.Add("\n*/ void main() {} /*")
	f.Setenv("VKC_CACHE", "off")
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) > 200 {
			return
		}
		plain := printed(t, "plain_")
		hostile := printed(t, name)
		for i := range plain {
			harmless(t, hostile[i].text)
			if want, got := strings.Count(plain[i].text, "\n"), strings.Count(hostile[i].text, "\n"); got != want {
				t.Errorf("vkc %s: %d lines, and %d with the name %q:\n%s", hostile[i].line, want, got,
					name, hostile[i].text)
			}
		}
	})
}

type printout struct{ line, text string }

// printed is all that the commands print about a graph and weights with that in
// their names.
func printed(t *testing.T, name string) []printout {
	t.Helper()
	dir := t.TempDir()
	file := func(of string) string { return filepath.Join(dir, of) }
	g, err := frontend.Build(name, func(b *frontend.Builder) {
		n := b.Sym("N", 4)
		x := b.Input(name+"x", ir.F32, n, 3)
		w := b.Weight(name+"w", ir.F32, 2, 3)
		s := b.State(name+"s", ir.F32, 2)
		b.Update(s, s.AddScalar(1))
		b.Output(name+"y", x.MatMulT(w).Add(s))
	})
	if err != nil {
		t.Skip(err) // names that graphs may not have
	}
	var text bytes.Buffer
	if err := g.WriteJSON(&text); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(file("g.json"), text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := ir.FromFloats(ir.F32, []float64{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.WriteFile(file("w.safetensors"), map[string]string{name + "key": name},
		[]safetensors.Named{{Name: name + "w", Data: w}}); err != nil {
		t.Skip(err)
	}
	run := []string{"run", file("g.json"), "--weights", file("w.safetensors"), "--device", "cpu", "--symbol", "N=2"}
	var all []printout
	for _, line := range [][]string{
		{"dump", file("g.json")}, {"dump", file("g.json"), "--all"}, {"dump", file("g.json"), "--fusion"}, {"dump", file("g.json"), "--stage", "kernels"},
		{"dump", file("g.json"), "--stage", "plan"}, {"dump", file("g.json"), "--stage", "plan", "--kernel", "0"}, {"dump", file("g.json"), "--stage", "glsl"},
		{"inspect", file("w.safetensors")}, {"quantize", file("w.safetensors"), "-o", file("q.gguf"), "--type", "f16"}, {"inspect", file("q.gguf")},
		append(run, "--input", name+"x=random:1", "--check"), run, append(run, "--input", "nothing=1"), append(run, "--output", "nothing=y.npy"),
		append(run, "--input", name+"x=[[1]]"),
	} {
		var out, errs strings.Builder
		execute(context.Background(), line, &out, &errs)
		all = append(all, printout{strings.Join(line, " "), out.String() + errs.String()})
	}
	return all
}

// TestRandomInputBound: random inputs are bounded before they are made.
func TestRandomInputBound(t *testing.T) {
	devtest.EmptyCache(t)
	for _, tt := range []struct{ shape, want string }{
		{`"N", 1073741824`, "of 128.0 GiB"},
		{`1073741825`, "of 4.0 GiB"},
	} {
		g := write(t, "g.json", []byte(`{"format": "vkc.graph", "version": 1, "symbols": {"N": 32}, "nodes": [
			{"id": "x", "op": "input", "attrs": {"name": "x", "dtype": "f32", "shape": [`+tt.shape+`]}},
			{"id": "y", "op": "neg", "args": ["x"]}], "outputs": [{"name": "y", "node": "y"}]}`))
		fails(t, exitFailure, []string{"run", g, "--device", "cpu", "--input", "x=random:1", "--symbol", "N=32"},
			`input "x" is f32[`, tt.want, "at most 4.0 GiB")
	}
}
