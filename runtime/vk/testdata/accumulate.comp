#version 450
// state += x
layout(local_size_x = 64) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) buffer State { float state[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < state.length()) state[i] += x[i];
}
