// Package vkc compiles tensor programs to fused Vulkan compute kernels and
// runs them.
//
// A program is an [ir.Graph], built with package frontend or read with
// [ReadGraph]. A [Device] compiles it and loads it with its weights, and the
// [Executable] that results runs any number of times, from any number of
// goroutines:
//
//	dev, err := vkc.OpenDevice("auto") // a GPU, or else where each graph runs faster
//	exe, err := dev.LoadGraph(ctx, g, weights)
//	x, err := vkc.Of([]float32{1, 2, 3}, 3)
//	res, err := exe.Run(ctx, vkc.Tensors{"x": x})
//	y, err := vkc.Values[float32](res.Outputs["y"])
//
// [Device.Compile] and [Device.Load] are the two halves of LoadGraph.
//
// Compiled programs are kept in a cache (see [Compile]); the second time a
// graph is compiled no compiler is started. [Program.Save] writes a program to
// a bundle, which another machine opens with [OpenBundle], or with
// [OpenBundleBytes] from memory, and runs without any compiler.
//
// Where there is no Vulkan device the same graph runs on the CPU fast path, and
// [Device.Fallback] tells; where the device cannot run a graph, that graph does, and
// [Executable.Fallback] tells. Where the only device is in software, "auto" tries each
// graph there and on the reference, which starts faster and computes slower, and
// [Executable.Why] tells what came of it. Package check compares what a device
// computes with the reference.
package vkc
