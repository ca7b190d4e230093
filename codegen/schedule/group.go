package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// maxGroupLanes limits the invocations of a workgroup that groups elements. Each invocation counts a contiguous part of
// the elements and then adds the counts of all earlier invocations.
const maxGroupLanes = 256

// groups lists schedules with one workgroup per group number. The workgroup counts all elements and collects its own.
func (h heuristics) groups(k *kernel.Kernel) []Candidate {
	return shrinking(max(min(h.rowLanes, maxGroupLanes), smallest), func(wg int) Candidate {
		return Candidate{launch(kernel.VarGroup, wg, 1), fmt.Sprintf("%s elements by %s", k.Fold, k.Parallel[0])}
	})
}

// checkGroup returns an error if a kernel that groups elements cannot run with a schedule.
func checkGroup(k *kernel.Kernel, s kernel.Launch, caps device.Caps) error {
	if err := k.CheckGroup(); err != nil {
		return err
	}
	switch n := k.Parallel[0].Max(); {
	case !powerOfTwo(s.Workgroup) || s.Vec != 1 || s.Subgroup != 0:
		return fmt.Errorf("groups take a power of two invocations, and neither vectors nor subgroups")
	case n > int64(caps.MaxWorkgroupCount[0]):
		return fmt.Errorf("%d numbers to group by, the device allows %d workgroups", n, caps.MaxWorkgroupCount[0])
	}
	return nil
}
