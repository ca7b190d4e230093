package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/ir"
)

// gradientErrors has, by op and dtype, the largest error of a gradient on a device relative to the largest gradient.
// TestGradientsOnDevice of internal/e2e writes it, with -gradients and -write-gradients.
//
//go:embed gradients.json
var gradientErrors []byte

// gradients returns the section of docs/OPS.md on the measured errors of gradients on a device.
func gradients() (string, error) {
	var errors map[string]map[string]float64
	if err := json.Unmarshal(gradientErrors, &errors); err != nil {
		return "", fmt.Errorf("gradients.json: %w", err)
	}
	var b strings.Builder
	b.WriteString("\n## Gradients on a device\n\n" +
		"Tests compare each gradient rule with finite differences of the reference in f64. They also compile " +
		"it for a\n" +
		"device, and compare the device's gradients with the reference. The table gives the largest error on " +
		"lavapipe,\n" +
		"relative to the largest element of the gradient, over a case or two of each op.\n" +
		"`go test ./internal/e2e -run TestGradientsOnDevice -args -gradients . -write-gradients` measures " +
		"them again.\n\n" +
		"| op | f32 | f16 | bf16 |\n|---|---|---|---|\n")
	for _, op := range ir.Ops() {
		of := errors[op.String()]
		if of == nil {
			continue
		}
		delete(errors, op.String())
		fmt.Fprintf(&b, "| `%s` |", op)
		for _, t := range []ir.DType{ir.F32, ir.F16, ir.BF16} {
			switch e, ok := of[t.String()]; {
			case !ok:
				b.WriteString(" — |")
			case e == 0:
				b.WriteString(" 0 |")
			default:
				fmt.Fprintf(&b, " %.1e |", e)
			}
		}
		b.WriteString("\n")
	}
	for op := range errors {
		return "", fmt.Errorf("gradients.json: there is no op %q", op)
	}
	return b.String(), nil
}
