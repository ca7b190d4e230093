package glsl_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/vktest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// folded are rows with several folds, so that folds use shared memory in turn.
var folded = map[string]string{
	"a mean, then a variance": `
		%x = input {name="x", dtype=f32, shape=[50,1200]}
		%y = layer_norm %x {eps=1e-05}
		output "y" %y`,
	"a maximum, then a sum": `
		%x = input {name="x", dtype=f32, shape=[37,700]}
		%y = softmax %x {axis=1}
		output "y" %y`,
	"several at once": `
		%x = input {name="x", dtype=f32, shape=[50,600]}
		%a = sum %x {axes=[1]}
		%b = reduce_max %x {axes=[1]}
		%c = reduce_min %x {axes=[1]}
		output "a" %a
		output "b" %b
		output "c" %c`,
	"places of both ends": `
		%x = input {name="x", dtype=i32, shape=[50,600]}
		%a = argmax %x {axis=1}
		%b = argmin %x {axis=1}
		output "a" %a
		output "b" %b`,
	"interleaved rows": `
		%x = input {name="x", dtype=f32, shape=[300,35]}
		%y = softmax %x {axis=0}
		output "y" %y`,
	"places in interleaved rows": `
		%x = input {name="x", dtype=f32, shape=[3,70,6]}
		%y = argmax %x {axis=1}
		output "y" %y`,
	"rows of a symbol's length": `
		symbol T <= 900
		%x = input {name="x", dtype=f16, shape=[40,T]}
		%y = softmax %x {axis=1}
		output "y" %y`,
}

// scanned are rows of several tiles, which use shared memory in turn.
var scanned = map[string]string{
	"sums": `
		%x = input {name="x", dtype=f32, shape=[13,1200]}
		%y = cumsum %x {axis=1}
		output "y" %y`,
	"from the end, without the element": `
		symbol T <= 900
		%x = input {name="x", dtype=i32, shape=[13,T]}
		%y = cumsum %x {axis=1, reverse=true, exclusive=true}
		output "y" %y`,
}

// TestFoldsOnDevice runs rows with each way to exchange values between lanes: none, only shared memory, or subgroups
// and then shared memory. A workgroup has one row or several, and may loop over further rows.
func TestFoldsOnDevice(t *testing.T) {
	runRows(t, kernel.VarRowSerial, kernel.VarRowGroup, folded, func(l kernel.Launch, lanes int) kernel.Schedule {
		return kernel.Row{Launch: l, LanesPerRow: lanes}
	})
}

// TestScansOnDevice does the same with scans.
func TestScansOnDevice(t *testing.T) {
	runRows(t, kernel.VarScanSerial, kernel.VarScanGroup, scanned, func(l kernel.Launch, lanes int) kernel.Schedule {
		return kernel.Lanes{Launch: l, LanesPerRow: lanes}
	})
}

// runRows compares graphs with the reference under the variant with one invocation per row, and under the variant with
// several.
func runRows(t *testing.T, serial, group kernel.Variant, graphs map[string]string,
	made func(l kernel.Launch, lanes int) kernel.Schedule) {
	t.Parallel()
	dev := vktest.Device(t, vk.DeviceOptions{})
	tools := toolchain(t)
	few := dev.Caps()
	few.MaxWorkgroupCount = [3]uint32{2, 1, 1}
	subgroup := 0
	for _, s := range []int{8, 16, 32, 64} { // the first size that the device supports
		if c := dev.Caps(); subgroup == 0 && uint32(s) >= c.MinSubgroupSize && uint32(s) <= c.MaxSubgroupSize {
			subgroup = s
		}
	}
	var cases []scheduled
	for name, graph := range graphs {
		for _, c := range []struct {
			variant                    kernel.Variant
			lanes, workgroup, subgroup int
			caps                       device.Caps
		}{
			{serial, 0, 16, 0, few}, {group, 64, 64, 0, dev.Caps()}, {group, 32, 128, 0, few},
			{group, 64, 64, subgroup, few}, {group, 4 * subgroup, 8 * subgroup, subgroup, dev.Caps()},
		} {
			cases = append(cases, newScheduled(t,
				fmt.Sprintf("%s, %d of %d, subgroup %d", name, c.lanes, c.workgroup, c.subgroup), graph,
				made(kernel.Launch{Variant: c.variant, Workgroup: c.workgroup, Vec: 1, Subgroup: c.subgroup}, c.lanes),
				c.caps))
		}
	}
	runScheduled(t, dev, tools, cases)
}

// TestPlaceOfEmptyRow: the index of an extremum among no elements is 0 on a device. The reference refuses to return
// one. A kernel cannot refuse, and a read at that index must stay inside its buffer.
func TestPlaceOfEmptyRow(t *testing.T) {
	t.Parallel()
	dev := vktest.Device(t, vk.DeviceOptions{})
	tools := toolchain(t)
	g, err := ir.Parse(`graph "test" {
		symbol T <= 300
		%x = input {name="x", dtype=f32, shape=[5,T]}
		%a = argmax %x {axis=1}
		%b = argmin %x {axis=1}
		output "a" %a
		output "b" %b
	}`)
	check(t, err)
	for _, sched := range []kernel.Schedule{
		kernel.Row{Launch: kernel.Launch{Variant: kernel.VarRowSerial, Workgroup: 8, Vec: 1}},
		kernel.Row{Launch: kernel.Launch{Variant: kernel.VarRowGroup, Workgroup: 32, Vec: 1}, LanesPerRow: 16},
	} {
		s, text, err := build(g, func(*kernel.Kernel) (kernel.Schedule, device.Caps, error) {
			return sched, dev.Caps(), nil
		})
		check(t, err)
		modules, err := assemble(tools, text)
		check(t, err)
		exe, err := dev.Load(t.Context(), s.Program, modules, nil, vk.LoadOptions{})
		check(t, err)
		x, err := ir.NewData(ir.F32, 5, 0)
		check(t, err)
		have, err := exe.Run(t.Context(), map[string]*ir.Data{"x": x},
			runtime.RunOptions{Symbols: map[string]int64{"T": 0}})
		check(t, err)
		for name, d := range have.Outputs {
			list, err := d.Ints()
			check(t, err)
			if slices.Max(list) != 0 || slices.Min(list) != 0 {
				t.Errorf("%s, %s: places %v of rows without elements, want 0", sched.Config().Variant, name, list)
			}
		}
		check(t, exe.Close())
	}
}
