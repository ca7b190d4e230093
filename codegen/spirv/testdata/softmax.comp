#version 430
// Softmax over rows of N, one workgroup a row.
#define N 4096
layout(local_size_x = 256) in;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) writeonly buffer C { float c[]; };
shared float red[256];

void main() {
	uint t = gl_LocalInvocationIndex, row = gl_WorkGroupID.x * N;
	float m = -1e30;
	for (uint i = t; i < N; i += 256) m = max(m, a[row + i]);
	red[t] = m;
	barrier();
	for (uint s = 128; s > 0; s >>= 1) {
		if (t < s) red[t] = max(red[t], red[t + s]);
		barrier();
	}
	m = red[0];
	barrier();
	float z = 0;
	for (uint i = t; i < N; i += 256) z += exp(a[row + i] - m);
	red[t] = z;
	barrier();
	for (uint s = 128; s > 0; s >>= 1) {
		if (t < s) red[t] += red[t + s];
		barrier();
	}
	z = red[0];
	for (uint i = t; i < N; i += 256) c[row + i] = exp(a[row + i] - m) / z;
}
