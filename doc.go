// Package vkc compiles tensor programs to fused Vulkan compute kernels and runs them.
//
// [Func] turns a function of tensors into a Go function, which compiles it at the first call with a shape:
//
//	add := vkc.Func[func(a, b []float32) ([]float32, error)](func(a, b frontend.Tensor) frontend.Tensor {
//		return a.Add(b)
//	})
//	sum, err := add([]float32{1, 2}, []float32{3, 4})
//
// Everything else is done with programs. A program is an [ir.Graph], built with package frontend or read with
// [ReadGraph]. A [Device] compiles it and loads it with its weights. The resulting [Executable] can run any number of
// times, from any number of goroutines:
//
//	dev, err := vkc.OpenDevice("auto") // a GPU, or else where each graph runs faster
//	exe, err := dev.LoadGraph(ctx, g, weights)
//	x, err := vkc.Of([]float32{1, 2, 3}, 3)
//	res, err := exe.Run(ctx, vkc.Tensors{"x": x})
//	y, err := vkc.Values[float32](res.Outputs["y"])
//
// [Device.Compile] and [Device.Load] are the two halves of LoadGraph.
//
// Compiled programs are cached (see [Compile]); compiling a graph again starts no compiler. [Program.Save] writes a
// program to a bundle. Another machine opens it with [OpenBundle], or with [OpenBundleBytes] from memory, and runs it
// without any compiler.
//
// Without a GPU the same graph runs on the CPU fast path. If a GPU cannot be opened, [Device.Fallback] returns the
// reason. If it cannot run a graph, only that graph runs on the fast path, and [Executable.Fallback] returns the
// reason. Package check compares the results of a device with the reference.
package vkc
