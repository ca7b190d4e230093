// Package schedule chooses the schedule of a kernel for a device. It has the heuristics for the devices of each vendor,
// with measured rates.
//
// [Select] chooses the kernel.Schedule of a kernel for a device, and says why:
//
//	caps, err := device.Profile("nvidia-h100")
//	s, reason, err := schedule.Select(k, caps)
//
// [Candidates] are the best schedules by the device's limits and rates, best first. [Variants] are all schedules that
// the device can run; `vkc tune` measures them, and [SelectTuned] prefers the results, a [device.Tuning]. [New]
// rejects a schedule that the device cannot run, whatever its source.
//
// [Pricer] estimates for the rules of package passes the time of kernels before and after a rewrite. Numbers that
// affect decisions were measured; docs/measurements lists them.
package schedule
