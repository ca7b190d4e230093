#version 450
// Copies 16 bytes per invocation: what memory gives at best when half of it is read and half is written.
layout(local_size_x = 256) in;
layout(std430, set = 0, binding = 0) readonly buffer Src { uvec4 src[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Dst { uvec4 dst[]; };
void main() {
	dst[gl_GlobalInvocationID.x] = src[gl_GlobalInvocationID.x];
}
