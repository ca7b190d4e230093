package main

import (
	"context"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(context.Background(), "cpu", &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "1000 steps") || !strings.Contains(out.String(), "f32[1000 8 64]") {
		t.Errorf("it says:\n%s", &out)
	}
}
