package passes_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

const softmaxOfSum = `
	%x = input {name="x", dtype=f32, shape=[4,8]}
	%y = add %x, %x
	%z = softmax %y
	output "z" %z`

func TestUntil(t *testing.T) {
	g := passtest.Parse(t, softmaxOfSum)
	for i, p := range passes.Passes() {
		var ran []string
		s, err := passes.Run(g, passes.Options{Until: p.Name, Observe: func(e passes.Event) error {
			ran = append(ran, e.Pass)
			if e.Text != e.State.Text() || e.Elapsed < 0 {
				t.Errorf("%s: the event does not describe the state", e.Pass)
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if len(ran) != i+1 || ran[i] != p.Name {
			t.Errorf("until %s: ran %v", p.Name, ran)
		}
		if fused, lowered, planned := s.Fusion != nil, s.Kernels != nil,
			s.Program != nil; fused != (i >= place("fuse_elementwise")) ||
			lowered != (i >= place("lower")) || planned != (i >= place("plan")) {
			t.Errorf("until %s: fused %v, lowered %v, planned %v", p.Name, fused, lowered, planned)
		}
	}
	if _, err := passes.Run(g, passes.Options{Until: "tea"}); err == nil ||
		!strings.Contains(err.Error(), `unknown pass "tea"`) || !strings.Contains(err.Error(), "decompose") {
		t.Errorf("unknown pass: %v", err)
	}
}

func place(name string) int {
	for i, p := range passes.Passes() {
		if p.Name == name {
			return i
		}
	}
	return -1
}

func TestObserve(t *testing.T) {
	g := passtest.Parse(t, softmaxOfSum)
	before, text := g.String(), g.String()
	err := run(g, func(e passes.Event) error {
		if e.Changed != (e.Text != text) {
			t.Errorf("%s: changed is %v", e.Pass, e.Changed)
		}
		text = e.Text
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if g.String() != before {
		t.Error("the graph that was given has changed")
	}
	stop := errors.New("enough")
	err = run(g, func(e passes.Event) error {
		if e.Pass == "cse" {
			return stop
		}
		if place(e.Pass) > place("cse") {
			t.Errorf("%s ran after an observer's error", e.Pass)
		}
		return nil
	})
	if !errors.Is(err, stop) || !strings.Contains(err.Error(), "cse") {
		t.Errorf("an observer's error became %v", err)
	}
}

func run(g *ir.Graph, observe func(passes.Event) error) error {
	_, err := passes.Run(g, passes.Options{Observe: observe})
	return err
}

func TestRunRefusesEmptyGraph(t *testing.T) {
	if _, err := passes.Run(ir.NewGraph("nothing"), passes.Options{}); err == nil ||
		!strings.Contains(err.Error(), "no outputs") {
		t.Errorf("a graph without results: %v", err)
	}
}
