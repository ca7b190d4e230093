#version 430
#extension GL_EXT_control_flow_attributes : require
// f32 matmul through shared memory: 16x16 threads, TM x TN results each.
#define TM 4
#define TN 4
layout(local_size_x = 16, local_size_y = 16) in;
const uint N = 512, K = 512, BK = 16, BM = 16 * TM, BN = 16 * TN;
layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 1) readonly buffer B { float b[]; };
layout(std430, binding = 2) writeonly buffer C { float c[]; };
shared float as[BK * BM];
shared float bs[BK * BN];

float gelu(float x) { return 0.5 * x * (1.0 + tanh(0.7978845608 * (x + 0.044715 * x * x * x))); }

void main() {
	uint tx = gl_LocalInvocationID.x, ty = gl_LocalInvocationID.y, t = gl_LocalInvocationIndex;
	uint r0 = gl_WorkGroupID.y * BM, c0 = gl_WorkGroupID.x * BN;
	float acc[TM * TN];
	[[unroll]] for (uint i = 0; i < TM * TN; i++) acc[i] = 0;
	for (uint k0 = 0; k0 < K; k0 += BK) {
		[[unroll]] for (uint i = 0; i < BK * BM; i += 256) {
			uint e = i + t;
			as[(e % BK) * BM + e / BK] = a[(r0 + e / BK) * K + k0 + e % BK];
		}
		[[unroll]] for (uint i = 0; i < BK * BN; i += 256) {
			uint e = i + t;
			bs[e] = b[(k0 + e / BN) * N + c0 + e % BN];
		}
		barrier();
		[[unroll]] for (uint k = 0; k < BK; k++) {
			float ra[TM], rb[TN];
			[[unroll]] for (uint i = 0; i < TM; i++) ra[i] = as[k * BM + ty * TM + i];
			[[unroll]] for (uint j = 0; j < TN; j++) rb[j] = bs[k * BN + tx * TN + j];
			[[unroll]] for (uint i = 0; i < TM; i++)
				[[unroll]] for (uint j = 0; j < TN; j++)
					acc[i * TN + j] = fma(ra[i], rb[j], acc[i * TN + j]);
		}
		barrier();
	}
	[[unroll]] for (uint i = 0; i < TM; i++)
		[[unroll]] for (uint j = 0; j < TN; j++)
			c[(r0 + ty * TM + i) * N + c0 + tx * TN + j] = gelu(acc[i * TN + j]);
}
