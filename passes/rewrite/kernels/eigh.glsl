// This kernel rotates pairs of rows and columns of room, until only its diagonal is left. y has the product of all
// rotations.

uint lane = gl_LocalInvocationID.x, n = x_dim1, first = gl_WorkGroupID.x * n * n;
for (uint e = lane; e < n * n; e += 128u) {
    uint i = e / n, j = e % n;
    room[first + e] = x[first + max(i, j) * n + min(i, j)];
    y[first + e] = i == j ? 1.0 : 0.0;
}
uint places = n + (n & 1u) - 1u, pairs = places / 2u + 1u;
for (uint sweep = 0u; sweep < 20u; ++sweep) {
    memoryBarrierBuffer();
    barrier();
    REAL off = 0.0, all = 0.0;
    for (uint e = lane; e < n * n; e += 128u) {
        REAL v = room[first + e];
        all += v * v;
        if (e / n != e % n) off += v * v;
    }
    sums[lane] = off;
    barrier();
    off = 0.0;
    for (uint i = 0u; i < 128u; ++i) off += sums[i];
    barrier();
    sums[lane] = all;
    barrier();
    all = 0.0;
    for (uint i = 0u; i < 128u; ++i) all += sums[i];
    if (!(off > SMALL * all)) break;
    for (uint step = 0u; step < places; ++step) {
        memoryBarrierBuffer();
        barrier();
        for (uint i = lane; i < pairs; i += 128u) {
            uvec2 at = pair(i, step, places);
            REAL cosine = 1.0, sine = 0.0;
            if (at.y < n) {
                REAL off_diagonal = room[first + at.x * n + at.y];
                if (off_diagonal != 0.0) {
                    REAL ratio = (room[first + at.y * n + at.y] - room[first + at.x * n + at.x]) / (2.0 * off_diagonal);
                    REAL tangent = (ratio < 0.0 ? -1.0 : 1.0) / (abs(ratio) + sqrt(ratio * ratio + 1.0));
                    cosine = 1.0 / sqrt(tangent * tangent + 1.0);
                    sine = tangent * cosine;
                }
            }
            cosines[i] = cosine;
            sines[i] = sine;
        }
        barrier();
        for (uint e = lane; e < pairs * n; e += 128u) {
            uvec2 at = pair(e / n, step, places) * n + e % n;
            REAL cosine = cosines[e / n], sine = sines[e / n];
            if (at.y < n * n) {
                REAL a = room[first + at.x], b = room[first + at.y];
                room[first + at.x] = cosine * a - sine * b;
                room[first + at.y] = sine * a + cosine * b;
            }
        }
        memoryBarrierBuffer();
        barrier();
        for (uint e = lane; e < pairs * n; e += 128u) {
            uvec2 at = pair(e / n, step, places);
            REAL cosine = cosines[e / n], sine = sines[e / n];
            if (at.y < n) {
                at += e % n * n;
                REAL a = room[first + at.x], b = room[first + at.y];
                room[first + at.x] = cosine * a - sine * b;
                room[first + at.y] = sine * a + cosine * b;
                a = y[first + at.x];
                b = y[first + at.y];
                y[first + at.x] = cosine * a - sine * b;
                y[first + at.y] = sine * a + cosine * b;
            }
        }
    }
}
// Each vector's column is the number of smaller eigenvalues. Its largest element becomes positive.
memoryBarrierBuffer();
barrier();
for (uint c = lane; c < n; c += 128u) {
    REAL value = room[first + c * n + c], largest = 0.0;
    uint column = 0u;
    for (uint i = 0u; i < n; ++i) {
        REAL other = room[first + i * n + i];
        if (other < value || other == value && i < c) ++column;
    }
    for (uint i = 0u; i < n; ++i) {
        REAL v = y[first + i * n + c];
        if (abs(v) > abs(largest)) largest = v;
    }
    for (uint i = 0u; i < n; ++i) if (largest < 0.0) y[first + i * n + c] = -y[first + i * n + c];
    columns[c] = column;
}
memoryBarrierBuffer();
barrier();
for (uint e = lane; e < n * n; e += 128u) room[first + e / n * n + columns[e % n]] = y[first + e];
memoryBarrierBuffer();
barrier();
for (uint e = lane; e < n * n; e += 128u) y[first + e] = room[first + e];
