// Package vkc compiles tensor programs to fused Vulkan compute kernels and
// runs them.
//
// A program is an [ir.Graph], built with package frontend or read with
// [ReadGraph]. A [Device] compiles it for itself, loads it with its weights,
// and the executable that results runs any number of times:
//
//	dev, err := vkc.OpenDevice("auto") // the best Vulkan device, or else the CPU reference
//	prog, err := dev.Compile(ctx, g, vkc.CompileOptions{})
//	exe, err := dev.Load(ctx, prog, vkc.LoadOptions{Weights: weights})
//	res, err := exe.Run(ctx, inputs, runtime.RunOptions{})
//
// Compiled programs are kept in a cache (see [Compile]); the second time a
// graph is compiled no compiler is started. [Program.Save] writes a program to
// a bundle, which another machine opens with [OpenBundle] and runs without any
// compiler.
//
// Where there is no Vulkan device the same graph runs on the CPU reference,
// slowly. [Device.Fallback] tells whether that happened. A [Checker] compares
// what a device computes with the reference.
package vkc
