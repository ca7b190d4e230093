// Package tune measures candidate schedules of kernels on a device and keeps
// the best.
//
// Each distinct kernel of a program is run alone, on random data, but for
// integers that say where results go: as in a run, no two have one place. Its default
// schedule is compared with the host evaluator where the kernel is small enough
// for that; every other schedule must give what the default gives, within the
// tolerance of the fused ops, at two lengths where the kernel has symbols, and
// must touch nothing beside its outputs. Only then is it timed: together with the
// default and with the best so far, interleaved, after a warm-up, in rounds that
// leave the slow ones out. Before each dispatch a device runs long code of another
// kernel, as a program would. It wins if its median is more than 2 % below the
// default's, on a processor 10 %.
//
// [Tune] decides what to measure and what wins, on anything that is a [Lab];
// [NewLab] is a Vulkan device.
package tune
