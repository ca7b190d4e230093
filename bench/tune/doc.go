// Package tune measures candidate schedules of kernels on a device and keeps the best.
//
// Each distinct kernel of a program runs alone on random data. Only integers that choose the positions of results are
// distinct, as in a real run. If the kernel is small enough, its default schedule is compared with the host evaluator.
// Every other schedule must give the default's results within the tolerance of the fused ops, at two lengths if the
// kernel has symbols, and must not write outside its outputs. Only correct schedules are timed. Each is interleaved
// with the default and the best so far after a warm-up, and slow ones drop out after each round. Before each dispatch
// the device runs long code of another kernel, as in a program. A schedule wins if its median is more than 2 % below
// the default's, or 10 % on a CPU device.
//
// [Tune] decides what to measure and which schedule wins. It runs on any [Lab]; [NewLab] returns the Lab of a Vulkan
// device.
package tune
