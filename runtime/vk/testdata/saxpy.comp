#version 450
// y = a*x + y
layout(local_size_x = 64) in;
layout(push_constant) uniform Push { uint n; float a; };
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) buffer Y { float y[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
