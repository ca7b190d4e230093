package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestZero sets every numeric flag to 0. Then 0 must be an ordinary value, the help must explain it, or it must be
// rejected. It must not be treated as an omitted flag.
func TestZero(t *testing.T) {
	plain := strings.Fields("atol draft-tokens drain frequency-penalty keep kernel min-p presence-penalty rtol seed " +
		"temp top-p")
	lines := map[string]string{
		"bench": "bench -m " + gollama, "chat": "chat -m " + gollama, "embed": "embed -m " + gollama + " x",
		"generate": "generate -m " + gollama + " -p x", "perplexity": "perplexity -m " + gollama + " zero_test.go",
		"run": "run " + mlpGraph, "serve": "serve -m " + gollama,
	}
	seen := map[string]bool{}
	for _, cmd := range commands((&app{}).rootCommand()) {
		verb := strings.TrimPrefix(cmd.CommandPath(), "vkc ")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if !slices.Contains([]string{"int", "int64", "uint64", "float64", "duration", "SIZE"}, kind) {
				return
			}
			seen[f.Name] = true
			says := func(text string) bool { return strings.Contains(f.Usage, text) }
			if slices.Contains(plain, f.Name) || says("0 means") || says("0 measures") || says("0 allows") {
				return
			}
			line, ok := lines[verb]
			if !ok {
				t.Errorf("%s --%s: its help does not say what 0 means, and no line tries whether it is refused", verb,
					f.Name)
				return
			}
			fails(t, exitUsage, append(words("vkc " + line)[1:], "--"+f.Name+"=0"), "--"+f.Name, "0")
		})
	}
	plain = append(plain, "ctx", "top-k", "tokens", "queue", "timeout", "parallel", "repeat", "gpu-memory")
	for _, name := range plain {
		if !seen[name] {
			t.Errorf("there is no flag --%s of a number", name)
		}
	}
	fails(t, exitUsage, words("generate -m "+gollama+" -p x --device cpu --draft-tokens 0 --draft "+gollama),
		"--draft-tokens: a draft model with 0 speculated tokens")
}

// TestTopPZero: of a probability of 0 there is one token.
func TestTopPZero(t *testing.T) {
	line := words("generate -m " + gollama + " -p func --device cpu -n 6 --ctx 32")
	want := ok(t, line...).stdout
	for _, seed := range []string{"1", "2"} {
		if got := ok(t, append(line, "--temp", "2", "--top-p", "0", "--seed", seed)...).stdout; got != want {
			t.Errorf("seed %s: %q, want the likeliest %q", seed, got, want)
		}
	}
}
