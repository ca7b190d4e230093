// Package schedule chooses how a kernel is scheduled on a device.
// How the devices of each vendor like their work cut is here, with the rates that were measured.
//
// [Select] chooses the kernel.Schedule of a kernel for a device, and says why:
//
//	caps, err := device.Profile("nvidia-h100")
//	s, reason, err := schedule.Select(k, caps)
//
// [Candidates] are the schedules that are good by the device's limits alone, the
// best first. [Variants] are all that the device can run, from which `vkc tune`
// chooses by measuring; [SelectTuned] then prefers what a [device.Tuning] says. [Check]
// refuses a schedule that the device cannot run, wherever it comes from.
//
// [Pricer] answers the rules of package passes: what do kernels take before and
// after a rewrite? A number that decides was measured; its
// row stands in docs/measurements.
package schedule
