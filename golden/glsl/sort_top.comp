// top_k_indices over [16], along 2048
// Fuses: top_k_indices.
// Schedule: select wg=256 cache=8.
#version 430
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { int x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { int result[]; };

shared uint bins[2048];
shared uint sums[256];
shared uint found[4];
shared uint keys[64];
shared uint order[64];

void main() {
    uint local = gl_LocalInvocationID.x;
    uint row = gl_WorkGroupID.x;

    // The keys of the row, neighbours in neighbouring invocations.
    uint own[8];
    [[unroll]] for (uint n = 0u; n < 8u; ++n) {
        uint j = n * 256u + local;
        uint key = 0xffffffffu;
        key = ~(uint(x[row * 2048u + j]) ^ 0x80000000u);
        own[n] = key;
    }

    // Find the last element to take, 11 bits of its key and then of its place at a time.
    uint last_key = 0u;
    uint last_place = 0u;
    uint known_key = 0u;
    uint known_place = 0u;
    uint rank = 40u;
    for (uint round = 0u; round < 4u; ++round) {
        bool by_key = round < 3u;
        uint shift = by_key ? uint(max(21 - 11 * int(round), 0)) : (3u - round) * 11u;
        for (uint bin = local; bin < 2048u; bin += 256u) {
            bins[bin] = 0u;
        }
        barrier();
        [[unroll]] for (uint n = 0u; n < 8u; ++n) {
            uint j = n * 256u + local;
            uint key = own[n];
            if ((key & known_key) == last_key && (j & known_place) == last_place) atomicAdd(bins[(by_key ? key : j) >> shift & 2047u], 1u);
        }
        barrier();
        uint first_bin = local * 8u, own_bins = 0u;
        for (uint b = 0u; b < 8u; ++b) own_bins += bins[first_bin + b];
        uint up_to = own_bins;
        sums[local] = up_to;
        barrier();
        for (uint distance = 1u; distance < 256u; distance <<= 1u) {
            uint other = local >= distance ? sums[local - distance] : 0u;
            barrier();
            up_to += other;
            sums[local] = up_to;
            barrier();
        }
        uint before = up_to - own_bins;
        if (before < rank && rank <= up_to) {
            while (before + bins[first_bin] < rank) before += bins[first_bin++];
            found[0] = first_bin;
            found[1] = rank - before;
            found[2] = bins[first_bin];
        }
        barrier();
        rank = found[1];
        if (by_key) {
            last_key |= found[0] << shift;
            known_key |= 2047u << shift;
            // All of the bin are taken: places do not matter.
            if (rank == found[2]) {
                last_key |= ~known_key;
                last_place = 0xffffffffu;
                break;
            }
        } else {
            last_place |= found[0] << shift;
            known_place |= 2047u << shift;
        }
    }

    // Gather what is not behind it.
    if (local == 0u) found[3] = 0u;
    for (uint place = local; place < 64u; place += 256u) {
        keys[place] = 0xffffffffu;
        order[place] = 0xffffffffu;
    }
    barrier();
    [[unroll]] for (uint n = 0u; n < 8u; ++n) {
        uint j = n * 256u + local;
        uint key = own[n];
        if (key < last_key || key == last_key && j <= last_place) {
            uint at = min(atomicAdd(found[3], 1u), 63u);
            keys[at] = key;
            order[at] = j;
        }
    }
    barrier();

    // Sort runs of growing size.
    for (uint size = 2u; size <= 64u; size <<= 1u) {
        for (uint distance = size >> 1u; distance > 0u; distance >>= 1u) {
            for (uint pair = local; pair < 32u; pair += 256u) {
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
    for (uint place = local; place < 40u; place += 256u) {
        int from = int(order[place]);
        result[row * 40u + place] = from;
    }
}
