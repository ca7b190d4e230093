package vkc_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes/layout"
)

// TestGoldenDecisions compares all compiler decisions for every benchmark case and every golden graph, on every
// profile, with golden/decisions: kernels, bindings, schedules, steps, barriers, and hashes of the GLSL. A refactoring
// must not change these files. The diff of any other change shows which decisions it affects.
func TestGoldenDecisions(t *testing.T) {
	suites := append(bench.Suites(), "graphs")
	for _, suite := range suites {
		t.Run(suite, func(t *testing.T) {
			t.Parallel()
			compareGolden(t, filepath.Join("golden", "decisions", suite+".txt"), decisionsOf(t, subjects(t, suite)))
		})
	}
}

// subject is a graph with golden decisions.
type subject struct {
	name  string
	graph func() (*ir.Graph, error)
}

// subjects returns the cases of a suite of the benchmark, or the golden graphs.
func subjects(t *testing.T, suite string) []subject {
	var list []subject
	if suite == "graphs" {
		files, err := filepath.Glob("golden/graphs/*.ir")
		if err != nil || len(files) == 0 {
			t.Fatalf("golden graphs: %d files, %v", len(files), err)
		}
		for _, path := range append(files, "examples/gollama/graph.json") {
			list = append(list, subject{filepath.ToSlash(path), func() (*ir.Graph, error) {
				return vkc.ReadGraph(path)
			}})
		}
		return list
	}
	for _, c := range bench.Cases(bench.Full, suite) {
		if c.StandIn != nil {
			c = *c.StandIn // the same kernels, fewer times
		}
		list = append(list, subject{c.Name, func() (*ir.Graph, error) { return c.Graph(c.Sizes) }})
	}
	return list
}

// decisionsOf formats the decisions for each subject. Profiles with the same decisions share an entry.
func decisionsOf(t *testing.T, list []subject) string {
	texts := make([]string, len(list))
	var wait sync.WaitGroup
	free := make(chan bool, 2) // graphs of models take much memory
	for i, s := range list {
		wait.Add(1)
		go func() {
			defer wait.Done()
			free <- true
			defer func() { <-free }()
			g, err := s.graph()
			if err != nil {
				t.Errorf("%s: %v", s.name, err)
				return
			}
			var order []string
			profiles := map[string][]string{}
			for _, profile := range device.Kinds() {
				text := decisions(t, g, profile)
				if profiles[text] == nil {
					order = append(order, text)
				}
				profiles[text] = append(profiles[text], profile)
			}
			var b strings.Builder
			fmt.Fprintln(&b, s.name)
			for _, text := range order {
				fmt.Fprintf(&b, "  %s: %s", strings.Join(profiles[text], " "), text)
			}
			texts[i] = b.String()
		}()
	}
	wait.Wait()
	return strings.Join(texts, "")
}

// decisions formats the decisions for a graph on a profile. Kernels of the same shader are one line with their number.
// The hash of the plan covers which buffers each step reads and writes.
func decisions(t *testing.T, g *ir.Graph, profile string) string {
	caps, err := device.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	low, err := compiler.Lower(context.Background(), g, caps, nil)
	if err != nil {
		return fmt.Sprintf("refused: %v\n", err)
	}
	p := low.Program
	barriers := 0
	count := make([]int, len(p.Shaders))
	for _, st := range p.Steps {
		if st.Barrier {
			barriers++
		}
		count[st.Shader]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d kernels, %d barriers, arena %d, plan %s\n", len(p.Steps), barriers, p.ArenaBytes, planHash(*p))
	seen := make([]bool, len(p.Shaders))
	for i, st := range p.Steps {
		if seen[st.Shader] {
			continue
		}
		seen[st.Shader] = true
		times := ""
		if n := count[st.Shader]; n > 1 {
			times = fmt.Sprintf("%d x ", n)
		}
		once := ""
		if i < p.Prepared {
			once = ", once"
		}
		fmt.Fprintf(&b, "    %s%s, %d bindings%s ; %s ; %s\n", times, low.Kernels[i].Name, len(st.Binds), once,
			st.Schedule, short(low.GLSL[st.Shader]))
		for _, a := range st.Alternatives {
			fmt.Fprintf(&b, "      for %s <= %d ; %s ; %s\n", a.Symbol.Name, a.Symbol.Bound, a.Schedule,
				short(low.GLSL[a.Shader]))
		}
	}
	for i, k := range p.Persistent {
		fmt.Fprintf(&b, "    steps %d to %d in one dispatch ; %s ; %s\n", k.First, k.First+k.Count-1,
			k.Dispatch.Schedule, short(low.GLSL[k.Dispatch.Shader]))
		if n := len(p.Persistent) - i - 1; i == mostPersistent && n > 0 {
			fmt.Fprintf(&b, "    and %d more of them\n", n)
			break
		}
	}
	return b.String()
}

// mostPersistent is the number of persistent kernels of a program to list; further ones are only counted.
const mostPersistent = 3

// planHash is a hash of the plan, schedules aside.
func planHash(p kernel.Program) string {
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		p.Steps[i].Schedule, p.Steps[i].Alternatives = "", nil
	}
	var text strings.Builder
	layout.Print(&text, &p)
	return short(text.String())
}

// short is the beginning of a hash of a text.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:4])
}
