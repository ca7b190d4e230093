package optest_test

import (
	"context"
	"regexp"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	"github.com/vkc-go/vkc/runtime"
)

// unitCases are matmuls larger than a tile with dtypes of matrix units. Drivers on the CPU need a second to compile
// each.
var unitCases = regexp.MustCompile(
	`^matmul/(f16|bf16)/129x67x131/transpose (true true|false false)|^matmul/f32/67x83x129/half$`)

// TestMatrixUnits runs matmuls on the device's matrix units if it has any, even if they are not the fastest way. The
// programs are compiled for an unknown device with the same features.
func TestMatrixUnits(t *testing.T) {
	dev := openDevice(t)
	caps := dev.Caps()
	if !caps.Features.CooperativeMatrix {
		t.Skipf("%s has no matrix units", dev.Name())
	}
	if caps.Type == device.DeviceCPU {
		caps.Type, caps.VendorID = device.DeviceDiscrete, 0
	}
	units := 0
	report, err := optest.Run(context.Background(),
		func(ctx context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
			p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
			if err != nil {
				return nil, err
			}
			for _, s := range p.Contents.Program.Steps {
				if regexp.MustCompile(`^coopmat`).MatchString(s.Schedule) {
					units++
				}
			}
			return dev.Load(ctx, p, vkc.LoadOptions{Weights: w})
		}, optest.Options{Filter: unitCases})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures() {
		t.Errorf("%s: %s", f.Case, f.Reason)
	}
	total := report.Total()
	t.Logf("%s: %d cases, %d kernels on matrix units, %d refused", dev.Name(), total.Cases, units, total.Refused)
	if units < 3 { // bf16 is not for all
		t.Errorf("%d kernels of %d cases run on matrix units", units, total.Cases)
	}
}
