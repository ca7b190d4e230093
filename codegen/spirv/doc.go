// Package spirv turns GLSL compute shaders into optimized SPIR-V by driving the Khronos command-line tools: glslc (or
// glslangValidator), then spirv-opt, then, on request, spirv-val. Results are kept in a content-addressed cache.
//
//	tools, err := spirv.Find(ctx, spirv.FindOptions{})
//	results, stats, err := tools.Compile(ctx, shaders, spirv.Options{})
//
// Start from [Toolchain] and [Shader].
//
// The design follows the costs of the tools (4 cores, glslang 12 and 16):
//
//   - A compiler process spends about 80 ms building glslang's symbol tables and then 1-3 ms per shader, so many
//     shaders share a few glslc processes.
//   - spirv-opt takes 5 ms for a small shader, but its -O takes seconds for a matmul tile with unrolled loops. See
//     optimizerPasses for the reason, and for the extra pass that makes it up to 20 times faster with the same
//     result.
//   - A cached shader costs a file read and a SHA-256. A fully cached program starts no process and needs no tool.
//
// A tool may use a minute of processor time, 2 GiB of memory, 64 MiB for its module and 1 MiB for its messages; see
// defaultLimits. A tool that exceeds a limit is killed with all of its children, and the shader's error names the
// limit. Only Linux and Windows enforce time and memory in the kernel. On all systems a tool ends after 10 minutes. If
// spirv-opt is too slow, the unoptimized module is not used in its place: the driver would have the same trouble with
// it, and the program would depend on the speed of the machine.
//
// Shader sources must be self-contained: an #include would not be part of the cache key.
package spirv
