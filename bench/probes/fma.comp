#version 450
// Multiply-adds of f32 that stay in registers: 16 chains per invocation hide the latency of each.
layout(local_size_x = 256) in;
layout(std430, set = 0, binding = 0) readonly buffer Src { vec4 src[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Dst { vec4 dst[]; };
void main() {
	uint i = gl_LocalInvocationID.x;
	vec4 m = src[i];
	vec4 a = src[i + 1u], b = src[i + 2u], c = src[i + 3u], d = src[i + 4u];
	for (int n = 0; n < ROUNDS; n++) {
		a = fma(a, m, m);
		b = fma(b, m, m);
		c = fma(c, m, m);
		d = fma(d, m, m);
	}
	dst[gl_GlobalInvocationID.x] = a + b + c + d;
}
