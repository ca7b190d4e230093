// custom op vkc.radix_move_last over keys u32[16,200000], starts u32[16,256,49], from i32[16,200000], places i32[16,200000]
// Keys of a row by one digit, stable: which element comes to each place, and its key.
// Schedule: custom wg=128.
#version 450

layout(local_size_x = 128, local_size_y = 1, local_size_z = 1) in;

layout(set = 0, binding = 0, std430) readonly buffer Custom_buffer_0 { uint keys[]; };
layout(set = 0, binding = 1, std430) readonly buffer Custom_buffer_1 { uint starts[]; };
layout(set = 0, binding = 2, std430) readonly buffer Custom_buffer_2 { int from[]; };
layout(set = 0, binding = 3, std430) writeonly buffer Custom_buffer_3 { int places[]; };

const uint keys_dim1 = 200000u;
const uint starts_dim2 = 49u;
const int shift = 24;

// >>> custom op vkc.radix_move_last Shared
shared uint next[1024]; // by group of 32 invocations and digit: the place of the next element
shared uint alike[2048]; // by turn, group and digit: which invocations have it
// <<< custom op vkc.radix_move_last Shared

void main() {
    {
        // >>> custom op vkc.radix_move_last Body
        uint local = gl_LocalInvocationID.x, lane = local & 31u, group = local >> 5u << 8u;
        uint row = gl_WorkGroupID.x, chunk = gl_WorkGroupID.y, n = keys_dim1;
        uint first = chunk * 4096u + (local >> 5u) * 1024u + lane;
        for (uint i = local; i < 1024u; i += 128u) {
            next[i] = 0u;
            alike[i] = 0u;
            alike[1024u + i] = 0u;
        }
        barrier();

        // Count each group's digits, and from that where they begin.
        for (uint turn = 0u; turn < 32u; ++turn) {
            uint j = first + 32u * turn;
            if (j < n) atomicAdd(next[group + (keys[row * n + j] >> shift & 255u)], 1u);
        }
        barrier();
        for (uint digit = local; digit < 256u; digit += 128u) {
            uint place = starts[(row * 256u + digit) * starts_dim2 + chunk];
            for (uint i = digit; i < 1024u; i += 256u) {
                uint count = next[i];
                next[i] = place;
                place += count;
            }
        }
        barrier();

        // Move them.
        for (uint turn = 0u; turn < 32u; ++turn) {
            uint j = first + 32u * turn, key = 0u, slot = 0u, set = turn << 10u & 1024u;
            bool in_row = j < n;
            if (in_row) {
                key = keys[row * n + j];
                slot = group + (key >> shift & 255u);
                atomicOr(alike[set + slot], 1u << lane);
            }
            barrier();
            uint those = alike[set + slot], place = next[slot];
            uint before = uint(bitCount(those & (1u << lane) - 1u));
            barrier();
            if (in_row) {
                if (before == 0u) {
                    next[slot] = place + uint(bitCount(those));
                    alike[set + slot] = 0u;
                }
                uint at = row * n + min(place + before, n - 1u);
                places[at] = from[row * n + j];

            }
        }
        // <<< custom op vkc.radix_move_last Body
    }
}
