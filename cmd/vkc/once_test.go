package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestGivenTwice gives every flag of every verb twice. One that takes a value refuses the second, and one that takes
// several says so in its help.
func TestGivenTwice(t *testing.T) {
	values := map[string][2]string{
		"string": {"one", "two"}, "int": {"1", "2"}, "int64": {"1", "2"}, "uint64": {"1", "2"}, "float64": {"0.5", "0.25"},
		"duration": {"1s", "2s"}, "bool": {"true", "false"}, "SIZE": {"1G", "2G"},
		"stringArray": {"a=1", "b=2"}, "stringSlice": {"matmul", "copy"}, "intSlice": {"1", "2"},
	}
	seen := map[string]int{}
	for _, cmd := range commands((&app{}).rootCommand()) {
		path := strings.Fields(cmd.CommandPath())[1:]
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			pair, ok := values[f.Value.Type()]
			if !ok {
				t.Fatalf("%s --%s: no values of type %s: add some", cmd.CommandPath(), f.Name, f.Value.Type())
			}
			seen[f.Value.Type()]++
			if _, list := f.Value.(pflag.SliceValue); list {
				says := func(text string) bool { return strings.Contains(f.Usage, text) }
				if !says("may be repeated") && !says("once per input") && !says("`N,...`") {
					t.Errorf("%s --%s is a list: its help does not say so", cmd.CommandPath(), f.Name)
				}
				return
			}
			names := []string{"--" + f.Name}
			if f.Shorthand != "" {
				names = append(names, "-"+f.Shorthand)
			}
			for _, again := range names {
				args := append(slices.Clone(path), "--"+f.Name+"="+pair[0], again+"="+pair[1])
				fails(t, exitUsage, args, "--"+f.Name, "given twice", pair[0], pair[1])
			}
		})
	}
	for kind := range values {
		if seen[kind] == 0 {
			t.Errorf("no flag is of type %s", kind)
		}
	}
}

// TestGivenTwiceAlike: the same value twice is refused too, but a flag without one may be repeated. vkc serve takes
// several models, and none twice.
func TestGivenTwiceAlike(t *testing.T) {
	fails(t, exitUsage, []string{"generate", "-m", "a.gguf", "-m", "a.gguf"}, "--model", "given twice", "a.gguf")
	fails(t, exitUsage, []string{"generate", "-m", "a.gguf", "--model", "b.gguf"}, "--model", "a.gguf", "b.gguf")
	fails(t, exitUsage, []string{"serve", "-m", gollama, "--model", gollama}, gollama, "another model has the name")
	fails(t, exitFailure, []string{"serve", "-m", gollama, "-m", "none.gguf"}, "none.gguf", "no such file")
	fails(t, exitUsage, []string{"-q=false", "version", "-q"}, "--quiet", "given twice")
	ok(t, "-q", "version", "-q", "--json", "--json")
}
