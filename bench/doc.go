// Package bench measures what programs take on a device: with the device's own
// clock, at its full clock rate, on random data that is not in its cache, and
// never without having checked the results first.
//
//	dev, err := vkc.OpenDevice("vulkan")
//	r := bench.Runner{Device: dev}
//	ceilings, err := r.Ceilings(ctx)            // what the device can do at all
//	for _, c := range bench.Cases(bench.Full) { // the table of docs/PERFORMANCE.md
//		fmt.Println(r.Run(ctx, c))
//	}
//
// A Case is a graph with its inputs, the work it stands for, and a way to check
// samples of its results. Measure is the part that knows nothing of cases: it
// times any loaded program. `vkc bench` is this package with a command line.
package bench
