package main

import (
	"io"
	"strings"
	"testing"

	"github.com/vkc-go/vkc"
)

// TestRecipes: vkc and plain Go compute the same, for each recipe.
func TestRecipes(t *testing.T) {
	dev, err := vkc.OpenDevice("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			task, err := r.prepare(t.Context(), dev, r.small)
			if err != nil {
				t.Fatal(err)
			}
			have, err := task.vkc()
			if err != nil {
				t.Fatal(err)
			}
			want := task.plain()
			if d := difference(have, want); !(d <= r.tolerance) || len(want) == 0 {
				t.Errorf("the results differ by %g, want at most %g: %.9v… and %.9v…", d, r.tolerance,
					have[:min(8, len(have))], want[:min(8, len(want))])
			}
			if task.close == nil {
				return
			}
			if err := task.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	if err := cook(t.Context(), "cpu", []string{"histogram"}, io.Discard); err != nil {
		t.Error(err)
	}
	err := cook(t.Context(), "cpu", []string{"bread"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "bread") {
		t.Errorf("a recipe that does not exist: %v", err)
	}
}
