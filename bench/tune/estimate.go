package tune

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

// NewEstimator returns a Lab that runs no kernels, and the device's capabilities. It estimates the time of a schedule
// from the driver's statistics of the compiled kernel, and returns an error if the driver reports none. It does not
// check results. The estimates rank the schedules of one kernel; they are no measurements.
func NewEstimator(ctx context.Context, dev *vkc.Device) (Lab, device.Caps, error) {
	if dev.IsCPU() || !dev.Caps().Features.PipelineExecutableProperties {
		return nil, device.Caps{}, fmt.Errorf("the driver of %s does not say what kernels cost "+
			"(VK_KHR_pipeline_executable_properties), so there is nothing to estimate by", dev.Name())
	}
	d, err := newDevice(ctx, vk.Of(dev))
	if err != nil {
		return nil, device.Caps{}, err
	}
	d.capture = vk.CaptureStatistics
	return estimator{d}, d.caps, nil
}

// estimator is the Lab of NewEstimator.
type estimator struct{ *lab }

// Open implements [Lab].
func (e estimator) Open(_ context.Context, k *Kernel) (Harness, error) {
	return &estimates{harness{lab: e.lab, kernel: k}}, nil
}

// estimates is a harness without buffers: it compiles schedules, and derives their times from the driver's
// statistics.
type estimates struct{ harness }

// Check implements [Harness]: there are no results.
func (*estimates) Check(context.Context, int) error { return nil }

// Time implements [Harness]: it returns estimated times, from the statistics of the compiled schedules.
func (e *estimates) Time(_ context.Context, which []int, _ time.Duration, _ int) ([]time.Duration, error) {
	times := make([]time.Duration, len(which))
	for n, i := range which {
		c := e.list[i]
		cost, err := c.pipeline.Cost()
		if err != nil {
			return nil, err
		}
		groups, err := c.grid.Eval(e.kernel.Symbols)
		if err != nil {
			return nil, err
		}
		workgroups := float64(groups[0]) * float64(groups[1]) * float64(groups[2])
		ns := estimate(e.kernel, c.schedule, e.caps, cost, workgroups, c.needs.Workgroup, c.needs.SubgroupSize)
		times[n] = max(time.Duration(math.Round(min(ns, 1e15))), 1)
	}
	return times, nil
}

// estimate returns the nanoseconds of a dispatch: the larger of the time of its memory traffic and of its instructions.
// A subgroup takes the cycles of its instructions or, if that is more, its latency divided by the number of subgroups
// that share a scheduler (the occupancy). Drivers assume a fixed trip count for loops, which favors schedules with more
// and shorter trips. So estimate scales the cycles by the real trip count.
func estimate(k *Kernel, s kernel.Schedule, caps device.Caps, cost runtime.KernelCost, workgroups float64,
	workgroup, subgroup int) float64 {
	machine := device.MachineOf(caps)
	width := float64(cmp.Or(subgroup, int(caps.SubgroupSize), 1))
	cycles := cmp.Or(cost[runtime.InverseThroughput], cost[runtime.Instructions],
		cost[runtime.CodeSize]/instructionBytes)
	if occupancy := cost[runtime.Occupancy]; occupancy > 0 {
		cycles = max(cycles, cost[runtime.Latency]/occupancy)
	}
	cycles += spillCycles * cost[runtime.Spills]
	subgroups := math.Ceil(float64(workgroup) / width)
	cores := float64(max(caps.Cores, 1))
	rounds := math.Ceil(workgroups/cores) * cores // the last one may leave cores idle
	// A cycle of all cores, if each did one multiply-add a lane in it.
	perCycle := 1e3 * machine.VectorF32 / (2 * width)
	compute := rounds * subgroups * cycles * steps(k.Kernel, s) / max(perCycle, 1e-3)
	memory := float64(k.step.Moved) / max(machine.CopyGBps, 1e-3)
	return max(compute, memory) + machine.LaunchNs
}

const (
	instructionBytes = 16 // NVIDIA's instruction size; NVIDIA's driver reports only bytes
	spillCycles      = 4  // of a spilled register, at least
)

// steps returns the trip count of a kernel's reduction loop, relative to the trip count that drivers assume.
func steps(k *kernel.Kernel, s kernel.Schedule) float64 {
	const counted = 8 // assumed trip count of drivers
	fold, each := float64(k.Fold.Max()), 0
	switch s := s.(type) {
	case kernel.MatVec:
		each = max(s.LanesPerRow, 1) * max(s.Vec, s.TileK)
	case kernel.Row:
		if k.Family == kernel.FamilyRow {
			each = max(s.LanesPerRow, 1) * s.Vec
		}
	case kernel.Points:
		if k.Family == kernel.FamilyRow {
			each = s.Vec
		}
	case kernel.FlashTile:
		each = s.TileN * max(s.Splits, 1)
	case kernel.FlashVec:
		each = s.TileN * max(s.Splits, 1)
	case kernel.FlashMatrix:
		each = s.TileN * max(s.Splits, 1)
	case interface{ Tiles() kernel.Tile }: // other matmuls
		each = s.Tiles().TileK
	default: // no loop: each invocation computes its part once
	}
	if each == 0 {
		return 1
	}
	return max(fold/float64(each), 1) / counted
}

// Agreement says how similarly two tuning files rank the schedules of one kernel.
type Agreement struct {
	About       string
	Schedules   int     // timed in both files
	Correlation float64 // of ranks; NaN of fewer than two
}

// Compare returns, for each kernel that two files have with the same lengths, how similarly their times rank its
// schedules.
func Compare(a, b *tunefile.File) []Agreement {
	var all []Agreement
	for _, k := range a.Kernels {
		other := b.Find(k.Key)
		if other == nil || fmt.Sprint(other.Lengths) != fmt.Sprint(k.Lengths) {
			continue
		}
		var x, y []float64
		for _, m := range k.Measured {
			for _, o := range other.Measured {
				if m.Schedule == o.Schedule && m.Micros > 0 && o.Micros > 0 {
					x, y = append(x, m.Micros), append(y, o.Micros)
				}
			}
		}
		all = append(all, Agreement{k.About, len(x), Spearman(x, y)})
	}
	return all
}
