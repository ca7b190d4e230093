// Package spirv turns GLSL compute shaders into optimized SPIR-V by driving
// the Khronos command-line tools: glslc (or glslangValidator), then spirv-opt,
// then, on request, spirv-val. Results are kept in a content-addressed cache.
//
//	tools, err := spirv.Find(ctx, spirv.FindOptions{})
//	results, stats, err := tools.Compile(ctx, shaders, spirv.Options{})
//
// Start from [Toolchain] and [Shader].
//
// The stages are built around what the tools cost (4 cores, glslang 12 and 16):
//
//   - A compiler process spends about 80 ms building glslang's symbol tables
//     and then 1-3 ms a shader, so many shaders share a few glslc processes.
//   - spirv-opt takes 5 ms for a small shader, but its -O takes seconds for a
//     matmul tile with unrolled loops; see optimizerPasses for why, and for the
//     one extra pass that makes it up to 20 times faster with the same result.
//   - A cached shader costs a file read and a SHA-256. A program that is wholly
//     cached starts no process, and needs no tool to be installed.
//
// A tool may take a minute of processor time, 2 GiB of memory, 64 MiB for its
// module and 1 MiB for its messages; see defaultLimits. One that takes more is
// killed with all that it started, and the shader has an error that names the
// limit. An unoptimized module does not stand in for one that spirv-opt was too
// slow for: the driver would compile it with the same trouble, and what a
// program is would depend on how fast the machine was. The kernel keeps watch
// over time and memory on Linux alone; elsewhere a tool ends after 10 minutes.
//
// Shader sources must stand alone: an #include would not be part of the cache
// key.
package spirv
