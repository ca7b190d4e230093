// custom op vkc.radix_count over keys u32[16,200000], counts u32[16,256,49]
// How many keys of each chunk of a row have each digit.
// Schedule: custom wg=128.
#version 450
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 128, local_size_y = 1, local_size_z = 1) in;

layout(set = 0, binding = 0, std430) readonly buffer Custom_buffer_0 { uint keys[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Custom_buffer_1 { uint counts[]; };

const uint keys_dim1 = 200000u;
const uint counts_dim2 = 49u;
const int shift = 16;

// >>> custom op vkc.radix_count Shared
shared uint bins[256];
// <<< custom op vkc.radix_count Shared

void main() {
    {
        // >>> custom op vkc.radix_count Body
        uint local = gl_LocalInvocationID.x, row = gl_WorkGroupID.x, chunk = gl_WorkGroupID.y;
        for (uint digit = local; digit < 256u; digit += 128u) bins[digit] = 0u;
        barrier();
        uint end = min(keys_dim1, chunk * 4096u + 4096u);
        for (uint j = chunk * 4096u + local; j < end; j += 1024u) {
            uint key[8];
            [[unroll]] for (uint i = 0u; i < 8u; ++i) key[i] = j + 128u * i < end ? keys[row * keys_dim1 + j + 128u * i] : 0u;
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                if (j + 128u * i < end) atomicAdd(bins[key[i] >> shift & 255u], 1u);
            }
        }
        barrier();
        for (uint digit = local; digit < 256u; digit += 128u) {
            counts[(row * 256u + digit) * counts_dim2 + chunk] = bins[digit];
        }
        // <<< custom op vkc.radix_count Body
    }
}
