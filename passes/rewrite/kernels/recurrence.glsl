// This kernel goes along time. Element n of a row belongs to lane n % 16. Loops over elements are unrolled, so that the
// state stays in registers. y depends on no other lane's state, so lanes exchange values only once in eight times. Then
// each lane adds up the parts of a row at one time.

const uint width = (state_dim1 + 15u) / 16u;
uint local = gl_LocalInvocationID.x, lane = local % 16u;
uint times = v_dim1, heads = v_dim2, values = v_dim3, row = gl_WorkGroupID.x * 8u + local / 16u;
bool inside = row < state_dim0;
uint from = inside ? row : state_dim0 - 1u, head = from / values % heads, first = from / (values * heads) * times;
double s[width];
[[unroll]] for (uint i = 0u; i < width; ++i) {
    uint n = i * 16u + lane;
    s[i] = 0.0;
    if (n < state_dim1) s[i] = state[from * state_dim1 + n];
}
for (uint t0 = 0u; t0 < times; t0 += 8u) {
    uint count = min(8u, times - t0);
    for (uint t = 0u; t < count; ++t) {
        uint at = (first + t0 + t) * heads + head, time = first + t0 + t;
        uint q_at = (time * q_dim2 + head * q_dim2 / heads) * state_dim1;
        uint k_at = (time * k_dim2 + head * k_dim2 / heads) * state_dim1;
        double value = v[at * values + from % values], part = 0.0;
BEFORE        [[unroll]] for (uint i = 0u; i < width; ++i) {
            uint n = i * 16u + lane;
            if (n < state_dim1) {
                s[i] = s[i] * decay[at * decay_dim3 + n % decay_dim3] + value * k[k_at + n]CORRECTION;
                part += s[i] * q[q_at + n];
            }
        }
        parts[t * 128u + local] = part;
    }
    barrier();
    uint t = local / 8u, sum_row = gl_WorkGroupID.x * 8u + local % 8u;
    if (t < count && sum_row < state_dim0) {
        double sum = 0.0;
        [[unroll]] for (uint i = 0u; i < 16u; ++i) sum += parts[t * 128u + local % 8u * 16u + i];
        uint time = sum_row / (values * heads) * times + t0 + t;
        y[(time * heads + sum_row / values % heads) * values + sum_row % values] = sum;
    }
    barrier();
}
if (inside) {
    [[unroll]] for (uint i = 0u; i < width; ++i) {
        uint n = i * 16u + lane;
        if (n < state_dim1) last[row * state_dim1 + n] = s[i];
    }
}
