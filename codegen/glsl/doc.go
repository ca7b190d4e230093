// Package glsl writes the GLSL of a kernel.
//
// Start from [Emit], which makes a [Shader] of a kernel and its schedule:
//
//	schedule, _, err := schedule.Select(k, caps)
//	shader, err := glsl.Emit(k, schedule, caps, nil)
//	fmt.Println(shader.Source)
//
// Each kind of kernel has a file: map.go, row.go, matmul.go, matvec.go,
// attention.go and so on. Block formats are rows in package ir.
//
// Emit is a pure function of a kernel, its schedule and the device's
// abilities: the same arguments give the same text, which makes the text's
// hash an identity for caches. The text is meant to be read: `vkc dump --stage
// glsl` prints it as it goes to the compiler.
//
// The emitter keeps a stack of scopes, one per block of the text. Loops bind
// the axes and folds bind their results; a value is declared in the outermost
// scope in which everything it depends on is bound, so that what does not
// change in a loop is computed before it, without a pass of its own.
//
// Floats of 16 and 8 bits are computed with in f32 and rounded where they are
// stored or cast. Functions of f64 that GLSL has for f32 only are computed in
// f32: they keep its precision and its range.
package glsl
