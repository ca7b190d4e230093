#version 450
#extension GL_KHR_shader_subgroup_basic : require
// Writes the subgroup size.
layout(local_size_x = 64) in;
layout(std430, binding = 0) writeonly buffer Out { uint size; };
void main() {
    if (gl_LocalInvocationIndex == 0) size = gl_SubgroupSize;
}
