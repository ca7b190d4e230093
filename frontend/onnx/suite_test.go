package onnx_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir/interp"
)

// suite is where Debian's libonnx-testdata has the tests of ONNX itself.
const suite = "/usr/share/libonnx-testdata/data"

// TestSuite runs every model of ONNX's own tests on the reference. testdata/exceptions.txt and exceptions-1.12.txt list
// the models that do not pass, with the reason. If a listed one passes, that is an error too.
func TestSuite(t *testing.T) {
	if _, err := os.Stat(suite); err != nil {
		t.Skipf("%v: install the package libonnx-testdata", err)
	}
	cases, err := onnx.Cases(suite)
	if err != nil || len(cases) < 1000 {
		t.Fatalf("%d cases, error %v", len(cases), err)
	}
	excepted := exceptions(t)
	passed := 0
	for _, c := range cases {
		switch err := runCase(c); {
		case err == nil && excepted[c.Name]:
			t.Errorf("%s passes: take it out of the list of exceptions", c.Name)
		case err == nil:
			passed++
		case !excepted[c.Name]:
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	t.Logf("%d of %d passed", passed, len(cases))
}

func exceptions(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, file := range []string{"exceptions.txt", "exceptions-1.12.txt"} {
		content, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if name, _, _ := strings.Cut(line, " "); name != "#" {
				names[name] = true
			}
		}
	}
	return names
}

// runCase runs a case on the reference and compares its outputs as ONNX's tests do.
func runCase(c onnx.Case) error {
	l, err := c.Load()
	if err != nil {
		return err
	}
	defer l.File.Close()
	p, err := interp.New(l.File.Graph, interp.Options{Weights: l.File})
	if err != nil {
		return err
	}
	out, err := p.Run(context.Background(), l.Inputs, nil)
	if err != nil {
		return err
	}
	if err := l.File.Graph.OutputInfo().Trim(out); err != nil {
		return err
	}
	for name, want := range l.Want {
		if err := onnx.Compare(out[name], want, 1e-3, 1e-7); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
	}
	return nil
}
