// cumsum over [300], along N
// Fuses: cumsum.
// Schedule: scan_group wg=256 lanes=256 vec=1.
#version 430

layout(local_size_x = 256) in;

layout(set = 0, binding = 0, std430) readonly buffer X_buffer { int x[]; };
layout(set = 0, binding = 1, std430) writeonly buffer Result_buffer { int result[]; };
layout(set = 0, binding = 2, std430) readonly buffer Params_buffer { uint params[]; };

shared int sums[256];

void main() {
    const uint N = params[0];
    uint local = gl_LocalInvocationID.x;
    uint row = gl_WorkGroupID.x;

    // running_sum: the sum before each element.
    int running_sum = 0;
    for (uint tile = 0u; tile < N; tile += 256u) {
        uint j = tile + local;
        bool in_row = j < N;
        int own = 0;
        if (in_row) {
            own += x[N + row * N - j - 1u];
        }

        // What the lanes before have.
        int up_to = own;
        sums[local] = up_to;
        barrier();
        for (uint distance = 1u; distance < 256u; distance <<= 1u) {
            int other = 0;
            if (local >= distance) other = sums[local - distance];
            barrier();
            up_to += other;
            sums[local] = up_to;
            barrier();
        }
        int before = 0;
        if (local > 0u) before = sums[local - 1u];
        int tile_sum = sums[255u];
        if (in_row) {
            int up_to_here = running_sum + before;
            result[N + row * N - j - 1u] = up_to_here;
        }
        running_sum += tile_sum;
        barrier(); // before shared memory is used for the next tile
    }
}
