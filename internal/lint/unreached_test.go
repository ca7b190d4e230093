package lint_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/lint"
)

// TestUnreached: functions that something reaches are not listed: calls, function values, methods that a dependency can
// call, generic functions, and what a test alone calls. Functions that only such functions call that nothing reaches
// are listed.
func TestUnreached(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26\n",
		"main.go": `package main

import (
	"fmt"
	"slices"

	"example.com/m/lib"
)

func main() {
	list := []int{2, 1}
	slices.SortFunc(list, lib.Value)
	fmt.Println(lib.Shown{}, lib.Generic(list))
}
`,
		"lib/lib.go": `package lib

func init() {}

func Value(a, b int) int { return a - b }

type Shown struct{}

func (Shown) String() string { return called() }

func (Shown) hidden() {}

func called() string { return "" }

func Generic[T any](list []T) int { return len(list) }

func Tested() {}

type Unused struct{}

func (*Unused) Method() {}

func First() { Second() }

func Second() {}

func GenericUnused[T any]() {}
`,
		"lib/lib_test.go": `package lib

import "testing"

func TestTested(t *testing.T) { Tested() }

func helper() {}
`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	list, err := lint.Unreached(dir, "./...")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range list {
		names = append(names, line[strings.LastIndex(line, " ")+1:])
	}
	slices.Sort(names)
	const lib = "example.com/m/lib"
	want := []string{"(*" + lib + ".Unused).Method", "(" + lib + ".Shown).hidden", lib + ".First",
		lib + ".GenericUnused", lib + ".Second", lib + ".helper"}
	if !slices.Equal(names, want) {
		t.Errorf("unreached are\n%q, want\n%q", names, want)
	}
	if list, err := lint.Unreached(dir, "./nothing"); err == nil {
		t.Errorf("a package that does not exist: %q", list)
	}
}
