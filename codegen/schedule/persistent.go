package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// Run is a range of steps that one persistent kernel may execute.
type Run struct {
	First, Count int
	Groups       int    // workgroups of the persistent kernel
	Why          string // the gain, for listings
}

// Runs proposes ranges of steps to execute as persistent kernels. A persistent kernel saves one launch for each barrier
// between its steps. In return its workgroups must synchronize, and must read each other's new values through the
// shared cache. All workgroups of a step must be resident on the device at the same time, so that none waits for a
// second wave.
//
// A range ends before a kernel that it already contains. Otherwise the persistent kernel would have two copies of this
// kernel's code, and the device would fetch both. With ranges that repeat, such as the layers of a model, all ranges
// can use one persistent kernel.
func Runs(p *kernel.Program, kernels []*kernel.Kernel, schedules []kernel.Schedule, caps device.Caps) (runs []Run) {
	h := heuristicsOf(caps)
	if h.BarrierNs <= 0 || !caps.Features.MemoryModel || len(p.Gated()) > 0 {
		return nil
	}
	borders := p.Borders()
	for i := p.Prepared; i < len(p.Steps); {
		joined := phases{h: h, program: p, bindings: device.Bindings(caps) - kernel.BarrierBinds}
		best, bestGain := Run{Count: 1}, 0.0
		for n := i; n < len(p.Steps); n++ {
			// A step without a barrier before it runs together with the step before, so no range begins or ends between
			// them.
			begins := n == i && (p.Begins(n) || p.Steps[n].Barrier)
			continues := n > i && p.Steps[n].Barrier && !borders[n]
			if !begins && !continues {
				break
			}
			if !joined.add(n, kernels[n], schedules[n]) {
				break
			}
			ends := n+1 == len(p.Steps) || p.Steps[n+1].Barrier
			// Each step after the first saves a launch, and costs a barrier.
			gain := float64(float64(joined.steps-1)*(h.LaunchNs-h.barrierTime(joined.groups))) - joined.reads
			if ends && gain > max(bestGain, float64(n-i)*leastGain*h.LaunchNs) {
				bestGain = gain
				best = Run{First: i, Count: n + 1 - i, Groups: int(joined.groups), Why: fmt.Sprintf(
					"%d workgroups; %d launches of %.2f us less, to wait in it takes %.2f: %.2f us gained",
					joined.groups, n-i, h.LaunchNs/1e3, h.barrierTime(joined.groups)/1e3, gain/1e3)}
			}
		}
		if best.Count > 1 {
			runs = append(runs, best)
		}
		i += best.Count
	}
	return runs
}

// leastGain is the minimum gain per launch, as a fraction of a launch's time, because estimates have errors of that
// size.
const leastGain = 0.1

// barrierTime is the time in nanoseconds of a barrier between all workgroups. Most of it is the round trip to memory.
// The rest is the atomic counter, which serializes the workgroups (M-persistent).
func (m machine) barrierTime(groups int64) float64 {
	return float64(m.BarrierNs * (0.75 + 0.25*float64(groups)/float64(m.cores)))
}

// phases are consecutive steps that one persistent kernel may execute, and the resources that they need together.
type phases struct {
	h        heuristics
	program  *kernel.Program
	bindings int // maximum number of bindings

	launch    kernel.Launch // of the first step
	shaders   map[int]bool
	buffers   map[int]bool
	written   map[int]bool
	groups    int64 // workgroups of the step that has the most
	shared    int   // bytes of shared memory of all steps together
	registers int   // registers of the step that needs the most
	steps     int
	reads     float64 // nanoseconds to read values written in the same dispatch
}

// add adds step n to the persistent kernel, and reports whether that is possible.
func (r *phases) add(n int, k *kernel.Kernel, s kernel.Schedule) bool {
	step, launch := r.program.Steps[n], s.Config()
	if r.steps == 0 {
		r.launch, r.shaders, r.buffers, r.written = launch, map[int]bool{}, map[int]bool{}, map[int]bool{}
	}
	sameSizes := launch.Workgroup == r.launch.Workgroup && launch.Subgroup == r.launch.Subgroup
	possible := k.Family != kernel.FamilyCustom && launch.Variant != kernel.VarCoopMat2
	groups, err := step.Grid.Eval(nil)
	if err != nil || !step.Grid.IsStatic() || r.shaders[step.Shader] || !sameSizes || !possible {
		return false
	}
	count := int64(groups[0]) * int64(groups[1]) * int64(groups[2])
	// All reads are counted before this step's own writes are recorded.
	for _, b := range step.Binds {
		if b.Address {
			return false
		}
		if r.written[b.Buffer] && b.Read {
			r.reads += float64(count*r.program.Buffers[b.Buffer].Bytes) / r.h.cacheRate()
		}
		r.buffers[b.Buffer] = true
	}
	for _, b := range step.Binds {
		r.written[b.Buffer] = r.written[b.Buffer] || b.Write
	}
	r.shaders[step.Shader] = true
	r.groups = max(r.groups, count)
	r.shared += SharedBytes(k, s)
	r.registers = max(r.registers, r.h.registersOf(k, s))
	r.steps++
	return r.groups <= r.h.resident(launch.Workgroup, r.registers, r.shared) && len(r.buffers) <= r.bindings
}

// resident returns how many workgroups fit on the device at the same time, as far as its limits are known. It is a
// lower bound, because kernels need fewer registers than registersOf estimates (M-persistent has figures).
func (h heuristics) resident(workgroup, registers, shared int) int64 {
	each := h.coreInvocations / workgroup
	if h.coreRegisters > 0 {
		each = min(each, h.coreRegisters/(max(registers, 1)*workgroup))
	}
	if h.coreShared > 0 && shared > 0 {
		each = min(each, h.coreShared/shared)
	}
	return h.cores * int64(each)
}
