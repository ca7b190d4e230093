package main

import (
	"embed"
	"strings"
	"testing"
)

// TestNoModel: without its bundle the program says how to make it.
func TestNoModel(t *testing.T) {
	if _, err := open(t.Context(), embed.FS{}, "cpu"); err == nil ||
		!strings.Contains(err.Error(), "model/README.md says how to make it") {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	if rgb, err := parse([]string{"255,0,51", "0,0,0"}); err != nil || len(rgb) != 6 || rgb[0] != 1 || rgb[2] != 0.2 {
		t.Errorf("%v, %v", rgb, err)
	}
	for _, wrong := range [][]string{nil, {"1,2"}, {"1,2,256"}, {"1,2,x"}, {"1,2,3", ""}, make([]string, maxPixels+1)} {
		if rgb, err := parse(wrong); err == nil {
			t.Errorf("%q is %v", wrong[:min(2, len(wrong))], rgb)
		}
	}
}
