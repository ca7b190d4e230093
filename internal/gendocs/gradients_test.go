package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestGradientsAreFresh fails where docs/OPS.md does not have the figures of gradients, or an op with a gradient has
// none.
func TestGradientsAreFresh(t *testing.T) {
	have, err := os.ReadFile("../../docs/OPS.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := gradients()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(have), want) {
		t.Error("docs/OPS.md is stale where it has the errors of gradients: run go generate ./ir")
	}
	var figures map[string]map[string]float64
	if err := json.Unmarshal(gradientErrors, &figures); err != nil {
		t.Fatal(err)
	}
	for _, op := range ir.Ops() {
		other := op.Class() == ir.ClassLeaf || op.Info().Custom != nil || op.Info().NoGrad != ""
		if !other && figures[op.String()] == nil {
			t.Errorf("the gradient of %s was not measured: scripts/with-vulkan go test ./internal/e2e "+
				"-run TestGradientsOnDevice -args -gradients %[1]s -write-gradients, then go generate ./ir", op)
		}
	}
}
