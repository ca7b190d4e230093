// Package glsl writes the GLSL of a kernel.
//
// Start from [Emit], which writes a [Shader] for a kernel and its schedule:
//
//	schedule, _, err := schedule.Select(k, caps)
//	shader, err := glsl.Emit(k, schedule, caps, nil)
//	fmt.Println(shader.Source)
//
// Each kind of kernel has a package below this one: maps, rows, order, blocks, matmul, matvec, attention and
// recurrence. These packages use package emit, the emitter. Block formats are rows of a table in package ir.
//
// Emit is a pure function of a kernel, its schedule and the device's abilities. The same arguments give the same
// source, so caches can use the source's hash as a key. Shaders are meant to be read: `vkc dump --stage glsl` prints
// the source that the compiler gets.
//
// The emitter builds a tree of statements (package syntax). It keeps a stack of scopes, one per block. Loops bind the
// axes of the kernel, and folds bind their results. A value is declared in the outermost scope that binds everything on
// which the value depends. So loop-invariant values are computed before the loop, without a pass for it.
//
// A node of the tree says whether its operation is precise. A precise operation is rounded by itself, as an op of the
// graph is. Only the printer knows how GLSL expresses that.
//
// Shaders compute 16-bit and 8-bit floats in f32, and round them when they store or cast them. Functions that GLSL has
// only for f32 are computed in f32 for f64 too: they have the precision and range of f32.
package glsl
