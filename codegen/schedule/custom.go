package schedule

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// customSchedule is the only schedule of a custom kernel: the workgroup size that its op declares.
func customSchedule(c *kernel.Custom) kernel.Launch {
	wg := c.Kernel().Workgroup
	return launch(kernel.VarCustom, wg[0]*wg[1]*wg[2], 1)
}

// checkCustomWorkgroup returns an error if a schedule has another workgroup than the custom op declares, or one that
// the device does not allow.
func checkCustomWorkgroup(c *kernel.Custom, s kernel.Launch, caps device.Caps) error {
	wg := c.Kernel().Workgroup
	if s != customSchedule(c) {
		return fmt.Errorf("custom op %s runs in workgroups of %v", c.Op, wg)
	}
	if !workgroupFits(wg, caps) {
		return fmt.Errorf("custom op %s has workgroups of %v, the device allows %v and %d invocations: register "+
			"it with a smaller Workgroup", c.Op, wg, caps.MaxWorkgroupSize, caps.MaxInvocations)
	}
	return nil
}

// workgroupFits reports whether a device allows a workgroup of size[0] x size[1] x size[2] invocations.
func workgroupFits(size [3]int, caps device.Caps) bool {
	all := uint64(1)
	for i, n := range size {
		all *= uint64(max(n, 1))
		if uint64(n) > uint64(caps.MaxWorkgroupSize[i]) {
			return false
		}
	}
	return all <= uint64(caps.MaxInvocations)
}

// checkCustom returns an error if a dispatch has too many workgroups when every symbol has its bound.
func checkCustom(k *kernel.Kernel, caps device.Caps) error {
	g, err := k.Custom.Grid()
	if err != nil {
		return err
	}
	if err := checkGrid(g, caps); err != nil {
		return fmt.Errorf("custom op %s: %w: use a larger tile, or spread the work over other dimensions", k.Custom.Op,
			err)
	}
	return nil
}
