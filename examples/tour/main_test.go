package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite graph.json")

// TestGoldenGraph: the committed graph.json is the program's output.
func TestGoldenGraph(t *testing.T) {
	const golden = "graph.json"
	fresh := filepath.Join(t.TempDir(), golden)
	if *updateGolden {
		fresh = golden
	}
	if err := run(fresh); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not what the program writes: run go test ./examples/tour -update-golden", golden)
	}
}
