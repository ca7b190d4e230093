// custom op vkc.radix_move_last over keys u32[16,200000], starts u32[16,256,49], from i32[16,200000], places i32[16,200000]
// Sorts the keys of each row by one digit, stably. The results are the source index and the key of each output position.
// Schedule: custom wg=128.
#version 450
#extension GL_EXT_control_flow_attributes : require

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
shared uint alike[1024]; // by group and digit: which invocations have it
shared uint order[2048]; // by place in the chunk's order: two coordinates in the chunk
// <<< custom op vkc.radix_move_last Shared

void main() {
    {
        // >>> custom op vkc.radix_move_last Body
        uint local = gl_LocalInvocationID.x, lane = local & 31u, group = local >> 5u << 8u;
        uint row = gl_WorkGroupID.x, chunk = gl_WorkGroupID.y, n = keys_dim1;
        uint begin = chunk * 4096u, count = min(max(n, begin) - begin, 4096u), first = row * n + begin;
        uint mine = (local >> 5u) * 1024u + lane;
        for (uint i = local; i < 1024u; i += 128u) {
            next[i] = 0u;
            alike[i] = 0u;
        }
        for (uint i = local; i < 2048u; i += 128u) order[i] = 0u;
        barrier();

        // Count each group's digits, eight loads at a time.
        for (uint j = mine; j < mine + 1024u; j += 256u) {
            uint key[8];
            [[unroll]] for (uint i = 0u; i < 8u; ++i) key[i] = j + 32u * i < count ? keys[first + j + 32u * i] : 0u;
            [[unroll]] for (uint i = 0u; i < 8u; ++i) {
                if (j + 32u * i < count) atomicAdd(next[group + (key[i] >> shift & 255u)], 1u);
            }
        }
        barrier();

        // Where in the chunk's order do they begin? Each invocation has two digits.
        uint low = 2u * local, two = 0u;
        for (uint i = low; i < 1024u; i += 256u) two += next[i] + next[i + 1u];
        uint up_to = two;
        alike[local] = up_to;
        barrier();
        for (uint distance = 1u; distance < 128u; distance <<= 1u) {
            uint other = local >= distance ? alike[local - distance] : 0u;
            barrier();
            up_to += other;
            alike[local] = up_to;
            barrier();
        }
        alike[local] = 0u;
        uint place = up_to - two;
        for (uint digit = low; digit < low + 2u; ++digit) {
            for (uint i = digit; i < 1024u; i += 256u) {
                uint those = next[i];
                next[i] = place;
                place += those;
            }
        }
        barrier();

        // Put the chunk in order: two coordinates to a word.
        for (uint j = mine; j < mine + 1024u; j += 32u) {
            bool in_row = j < count;
            uint slot = group;
            if (in_row) {
                slot += keys[first + j] >> shift & 255u;
                atomicOr(alike[slot], 1u << lane);
            }
            barrier();
            uint those = alike[slot], start = next[slot];
            uint before = uint(bitCount(those & (1u << lane) - 1u));
            barrier();
            if (in_row) {
                if (before == 0u) {
                    next[slot] = start + uint(bitCount(those));
                    alike[slot] = 0u;
                }
                uint at = start + before;
                atomicOr(order[at >> 1u & 2047u], j << 16u * (at & 1u));
            }
            barrier();
        }

        // Now each digit ends where the last group has come to. Move its elements.
        for (uint digit = local; digit < 256u; digit += 128u) {
            uint start = digit > 0u ? next[768u + digit - 1u] : 0u;
            next[digit] = starts[(row * 256u + digit) * starts_dim2 + chunk] - start;
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < 32u; ++i) {
            uint at = i * 128u + local;
            if (at < count) {
                uint j = order[at >> 1u] >> 16u * (at & 1u) & 0xffffu, key = keys[first + j];
                uint to = row * n + min(next[key >> shift & 255u] + at, n - 1u);
                places[to] = from[first + j];

            }
        }
        // <<< custom op vkc.radix_move_last Body
    }
}
