package lower_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/passes/lower"
)

// moved is a chain of n ops that move the elements of a 12x35 tensor in ways
// that no two of them undo.
func moved(n int, line func(i int, shape string) string) string {
	text, shapes := "%m0 = input {name=\"x\", dtype=f32, shape=[12,35]}\n", []string{"20,21", "12,35"}
	for i := range n {
		if i%2 == 0 {
			text += fmt.Sprintf("%%m%d = transpose %%m%d {perm=[1,0]}\n", i+1, i)
		} else {
			text += line(i, shapes[i/2%2]) + "\n"
		}
	}
	return fmt.Sprintf("%s%%y = neg %%m%d\noutput \"y\" %%y", text, n)
}

func reshapeLine(i int, shape string) string {
	return fmt.Sprintf("%%m%d = reshape %%m%d {shape=[%s]}", i+1, i, shape)
}

// TestChainsOfViews: indices stay small for long chains of ops that move elements, and the results are right.
func TestChainsOfViews(t *testing.T) {
	padded := func(i int, shape string) string {
		return fmt.Sprintf("%%p%[1]d = pad %%m%[1]d {low=[1,0], high=[0,0], value=1.0}\n%%q%[1]d = slice %%p%[1]d "+
			"{starts=[1,0], limits=[%[2]s]}\n%%m%[3]d = reshape %%q%[1]d {shape=[%[4]s]}",
			i, map[string]string{"20,21": "36,12", "12,35": "22,20"}[shape], i+1, shape)
	}
	for name, text := range map[string]string{
		"4":                moved(4, reshapeLine),
		"36":               moved(36, reshapeLine),
		"40":               moved(40, reshapeLine),
		"200":              moved(200, reshapeLine),
		"with padding":     moved(24, padded),
		"into a sum":       moved(40, reshapeLine) + "\n%s = sum %m40 {axes=[0]}\noutput \"s\" %s",
		"into a product":   moved(40, reshapeLine) + "\n%t = transpose %m40 {perm=[1,0]}\n%s = matmul %m40, %t\noutput \"s\" %s",
		"of what it meets": moved(40, reshapeLine) + "\n%s = add %m40, %m0\noutput \"s\" %s",
	} {
		t.Run(name, func(t *testing.T) {
			g := passtest.Parse(t, text)
			s, _, err := passtest.Check(g, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			total := 0
			for _, k := range s.Kernels {
				k.WalkIndices(func(x kernel.Index) { total += x.Size() })
			}
			if nodes := len(g.Nodes()); total > 256*nodes || len(s.Kernels) > 3+nodes/6 {
				t.Errorf("%d kernels with indices of %d factors for %d nodes", len(s.Kernels), total, nodes)
			}
		})
	}
}

// TestRunStops: the passes end when their context does, both between passes and inside slow ones.
func TestRunStops(t *testing.T) {
	g := passtest.Parse(t, moved(40, reshapeLine))
	for _, p := range passes.Passes()[:len(passes.Passes())-1] {
		ctx, cancel := context.WithCancel(context.Background())
		last := ""
		_, err := passes.Run(g, passes.Options{Context: ctx, Observe: func(e passes.Event) error {
			if last = e.Pass; last == p.Name {
				cancel()
			}
			return nil
		}})
		cancel()
		if !errors.Is(err, context.Canceled) || last != p.Name {
			t.Errorf("stopped after %s: the last pass was %s: %v", p.Name, last, err)
		}
	}
	weighed := 0
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, err := passes.Run(g, passes.Options{Context: ctx, Limits: lower.Limits{Weigh: func(ir.Op, ir.DType) int {
		weighed++
		cancel()
		return 1
	}}})
	if !errors.Is(err, context.Canceled) || weighed > 2 {
		t.Errorf("stopped while it fuses: asked %d times for what ops take: %v", weighed, err)
	}
}
