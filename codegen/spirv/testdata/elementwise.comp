#version 430
// A fused chain over vec4 with a broadcast row.
#define ROW 1024
layout(local_size_x = 256) in;
layout(std430, binding = 0) readonly buffer A { vec4 a[]; };
layout(std430, binding = 1) readonly buffer B { vec4 b[]; };
layout(std430, binding = 2) readonly buffer S { vec4 s[]; };
layout(std430, binding = 3) writeonly buffer C { vec4 c[]; };
layout(push_constant) uniform Params { uint n; };

vec4 silu(vec4 x) { return x / (1.0 + exp(-x)); }

void main() {
	uint i = gl_GlobalInvocationID.x;
	if (i >= n) return;
	vec4 x = a[i] * s[i % (ROW / 4)];
	c[i] = fma(silu(x), b[i], sqrt(abs(x) + 1e-6));
}
