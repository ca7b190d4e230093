package optest_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	"github.com/vkc-go/vkc/runtime"
)

// withoutSizes are cases with elements that some devices store only in 32-bit words, for all access patterns of
// kernels: neighbours, single elements, in place, blocks.
var withoutSizes = regexp.MustCompile(`^(cast/(f32|bf16|u8|i64)/to (f32|f16|bf16|f8e4m3|i8|bool|i64)/extreme` +
	`|(where|lt|mul)/(f16|i8|bool|i64)/7x13|concat/(bf16|i8|i64)/of 3/axis 2|gather/(f16|u8|i64)/5x7x6/axis 1/plain` +
	`|(scatter|scatter_add)/(f16|u8)/6x7/axis 1/plain|dynamic_update_slice/(f16|u8|i64)/9x11/axis 1/plain/0$` +
	`|(sum|argmax|cumsum|sort)/(f16|u8)/axis (-1|1)/5x37|pad/bf16/constant/3x4|transpose/i8/3x1x5` +
	`|embedding/f16/ids i64|quantize/f32/(q4_0|q8_0)/5x3x96/plain|dequantize/f16/q8_0/2x64` +
	`|matmul/f32/q8_0/(1x512|33x512) by 13|attention/f16/plain/0 outer/plain)$`)

// TestWords runs these as on a device without 8- and 16-bit storage and without 64-bit integers. Kernels must not write
// outside outputs, and shaders must not need the removed features.
func TestWords(t *testing.T) {
	dev := openDevice(t)
	caps := dev.Caps()
	caps.Features.Storage8, caps.Features.Storage16, caps.Features.Int64 = false, false, false
	runAs(t, dev, caps, optest.Options{Filter: withoutSizes}, 50, func(p *kernel.Program) {
		for _, s := range p.Shaders {
			need := strings.Join(s.Needs, " ")
			if strings.Contains(need, "storage") || strings.Contains(need, "int64") {
				t.Errorf("%s needs %s", s.Name, need)
			}
		}
	})
}

// byAddress are cases of every kernel family, and of all ways to read and write.
var byAddress = regexp.MustCompile(`^(where|lt|mul)/(f32|i8)/7x13$|^concat/(bf16|f32)/of 3/axis 2` +
	`|^(scatter|scatter_add)/(f16|f32)/6x7/axis 1/plain|^dynamic_update_slice/(f32|u8)/9x11/axis 1/plain/0$` +
	`|^(sum|argmax|cumsum|sort|topk)/(f16|f32)/axis (-1|1)/5x37|^embedding/f16/ids i64|^transpose/f32/3x1x5` +
	`|^quantize/f32/(q4_0|q8_0)/5x3x96/plain|^dequantize/f16/q8_0/2x64|^softmax/f32/axis -1/` +
	`|^matmul/f32/(q8_0|q4_k|iq4_nl)/(1x512|33x512) by 13|^matmul/(f32|f16)/3x5x7 by .*plain|^attention/(f32|f16)/plain/0 outer/plain`)

// TestByAddress runs these as on a device with bindings of 32 bytes. Kernels access larger tensors by address.
func TestByAddress(t *testing.T) {
	dev := openDevice(t)
	caps := dev.Caps()
	if !caps.Features.BufferDeviceAddress {
		t.Skip("the device has no addresses of buffers")
	}
	caps.MaxStorageRange = 32
	reached := 0
	runAs(t, dev, caps, optest.Options{Filter: byAddress}, 40, func(p *kernel.Program) {
		for _, s := range p.Steps {
			for _, b := range s.Binds {
				if large := p.Buffers[b.Buffer].Bytes > 32; large && !b.Address {
					t.Errorf("%s binds %s of %d bytes", s.Name, p.Buffers[b.Buffer].Name, p.Buffers[b.Buffer].Bytes)
				} else if large {
					reached++
				}
			}
		}
	})
	if reached < 100 {
		t.Errorf("%d buffers are reached by their addresses", reached)
	}
}

// TestWidePositions runs cases as on a device whose kernels count positions only up to 6 in 32 bits. So nearly all
// positions have 64 bits, and buffers accessed by address are accessed row by row, as for tensors of 2^32 elements.
// VKC_TEST_HUGE, which enables tests of such tensors, selects all cases that represent ops.
func TestWidePositions(t *testing.T) {
	dev := openDevice(t)
	caps := dev.Caps()
	if !caps.Features.BufferDeviceAddress || !caps.Features.Int64 {
		t.Skip("the device has no addresses of buffers, or no 64-bit integers")
	}
	caps.MaxStorageRange, caps.MaxPosition = 32, 6
	var wide atomic.Int64 // several graphs are compiled concurrently
	cases := optest.Options{Filter: byAddress}
	if os.Getenv("VKC_TEST_HUGE") != "" {
		cases = optest.Options{Smoke: true, Jobs: 2}
	}
	runAs(t, dev, caps, cases, 40, func(p *kernel.Program) {
		for _, s := range p.Shaders {
			if slices.Contains(s.Needs, "int64") {
				wide.Add(1)
			}
		}
	})
	t.Logf("%d kernels compute positions in 64 bits", wide.Load())
	if wide.Load() < 30 {
		t.Errorf("%d kernels compute positions in 64 bits", wide.Load())
	}
}

// runAs runs at least so many cases as on a device of other caps, and compares; look sees every program.
func runAs(t *testing.T, dev *vkc.Device, caps device.Caps, cases optest.Options, least int,
	look func(*kernel.Program)) {
	t.Helper()
	cases.Batch = atOnce
	report, err := optest.Run(context.Background(),
		func(ctx context.Context, g *ir.Graph, w ir.WeightSource) (runtime.Executable, error) {
			p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
			if err != nil {
				return nil, err
			}
			look(p.Contents.Program)
			return dev.Load(ctx, p, vkc.LoadOptions{Weights: w, Guards: true})
		}, cases)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Failures() {
		t.Errorf("%s: %s", f.Case, f.Reason)
	}
	total := report.Total()
	t.Logf("%s: %d cases, %d refused", dev.Name(), total.Cases, total.Refused)
	for _, r := range report.Results {
		if r.Outcome == optest.Refusal {
			t.Errorf("%s: refused: %s", r.Case, r.Reason)
		}
	}
	if total.Cases < least {
		t.Errorf("%d cases", total.Cases)
	}
}
