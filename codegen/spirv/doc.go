// Package spirv turns GLSL compute shaders into optimized SPIR-V by driving
// the Khronos command-line tools: glslc (or glslangValidator), then spirv-opt,
// then, on request, spirv-val. Results are kept in a content-addressed cache.
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
// Shader sources must stand alone: an #include would not be part of the cache
// key.
package spirv
