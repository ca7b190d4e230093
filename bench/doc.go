// Package bench measures the speed of programs on a device. It uses the device's timestamps, warms the device up to its
// full clock rate, uses random data that is not in the cache, and always checks the results first.
//
//	dev, err := vkc.OpenDevice("vulkan")
//	r := bench.Runner{Device: dev}
//	ceilings, err := r.Ceilings(ctx)            // what the device can do at all
//	for _, c := range bench.Cases(bench.Full) { // the table of docs/PERFORMANCE.md
//		fmt.Println(r.Run(ctx, c))
//	}
//
// A Case is a graph with its inputs, its count of flops and bytes, and samples of its results to check. Measure is
// independent of cases: it times any loaded program. `vkc bench` is this package with a command line.
package bench
