// top_k_indices over [16], along 2048
// Fuses: top_k_indices.
// Schedule: sort wg=512.
#version 450

layout(local_size_x = 512) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { int x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { int result[]; };

shared uint keys[2048];
shared uint order[2048];

void main() {
    uint local = gl_LocalInvocationID.x;
    uint row = gl_WorkGroupID.x;

    // The keys of the row.
    for (uint j = local; j < 2048u; j += 512u) {
        uint key = 0xffffffffu;
        key = ~(uint(x[row * 2048u + j]) ^ 0x80000000u);
        keys[j] = key;
        order[j] = j;
    }
    barrier();

    // Sort runs of growing size.
    for (uint size = 2u; size <= 2048u; size <<= 1u) {
        for (uint distance = size >> 1u; distance > 0u; distance >>= 1u) {
            for (uint pair = local; pair < 1024u; pair += 512u) {
                uint a = 2u * pair - (pair & distance - 1u), b = a + distance;
                uint key_a = keys[a], key_b = keys[b], from_a = order[a], from_b = order[b];
                bool later = key_a > key_b || key_a == key_b && from_a > from_b;
                if (later == ((a & size) == 0u)) {
                    keys[a] = key_b;
                    keys[b] = key_a;
                    order[a] = from_b;
                    order[b] = from_a;
                }
            }
            barrier();
        }
    }

    // Store each place of the order.
    for (uint place = local; place < 40u; place += 512u) {
        int from = int(order[place]);
        result[row * 40u + place] = from;
    }
}
