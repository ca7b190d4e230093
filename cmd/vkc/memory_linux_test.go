package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/devtest"
)

// TestOutOfMemory: where ulimit leaves too little for a run, vkc says so, and Go does not end it with a trace.
func TestOutOfMemory(t *testing.T) {
	devtest.EmptyCache(t)
	exe := buildPlain(t)
	graph := filepath.Join(t.TempDir(), "outer.ir")
	if err := os.WriteFile(graph, []byte(`graph "outer" {
		symbol N <= 100000
		%x = input {name="x", dtype=f32, shape=[N,1]}
		%y = input {name="y", dtype=f32, shape=[1,N]}
		%1 = mul %x, %y
		%2 = cumsum %1 {axis=0}
		%3 = sum %2 {axes=[0]}
		output "z" %3
	}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{"cpu", "reference"} {
		for _, limit := range []string{"ulimit -v", "ulimit -d"} {
			cmd := exec.Command("sh", "-c", limit+` 3000000; exec "$0" "$@"`, exe, "run", graph, "--device", device,
				"--input", "x=random:1", "--input", "y=random:2", "--symbol", "N=30000")
			var said bytes.Buffer
			cmd.Stderr = &said
			err := cmd.Run()
			failed := (*exec.ExitError)(nil)
			if !errors.As(err, &failed) || failed.ExitCode() != exitFailure ||
				!strings.Contains(said.String(), limit) || strings.Contains(said.String(), "goroutine") {
				t.Errorf("%s on %s: %v\n%s", limit, device, err, said.String())
			}
		}
	}
}
