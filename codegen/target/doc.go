// Package target describes devices and chooses how a kernel is scheduled on one.
// All that vkc knows of vendors and of measured rates is here.
//
// Start from [Caps], what a device can do: probed by runtime/vk, or one of the
// profiles in profiles/*.json ([Profile]). [Select] chooses the kernel.Schedule
// of a kernel for it, and says why:
//
//	caps, err := target.Profile("nvidia-h100")
//	schedule, reason, err := target.Select(k, caps)
//
// [Candidates] are the schedules that are good by the device's limits alone, the
// best first. [Variants] are all that the device can run, from which `vkc tune`
// chooses by measuring; [SelectTuned] then prefers what a [Tuning] says. [Check]
// refuses a schedule that the device cannot run, wherever it comes from.
//
// [Pricer] answers the rules of package passes: what do kernels take before and
// after a rewrite? A number that decides was measured; its
// row stands in docs/measurements.
package target
