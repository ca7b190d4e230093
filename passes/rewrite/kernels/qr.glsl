// This kernel makes the reflections of all columns in y, and then multiplies them in reverse order.

uint lane = gl_LocalInvocationID.x, m = x_dim1, n = x_dim2, first = gl_WorkGroupID.x * m * n;
for (uint e = lane; e < m * n; e += 128u) y[first + e] = x[first + e];
for (uint j = 0u; j < n; ++j) {
    memoryBarrierBuffer();
    barrier();
    REAL largest = 0.0, norm = 0.0;
    for (uint i = j + lane; i < m; i += 128u) largest = max(largest, abs(y[first + i * n + j]));
    sums[lane] = largest;
    barrier();
    for (uint i = 0u; i < 128u; ++i) largest = max(largest, sums[i]);
    barrier();
    REAL divisor = largest > 0.0 ? largest : REAL(1.0);
    for (uint i = j + lane; i < m; i += 128u) {
        REAL v = y[first + i * n + j] / divisor;
        norm += v * v;
    }
    sums[lane] = norm;
    barrier();
    norm = 0.0;
    for (uint i = 0u; i < 128u; ++i) norm += sums[i];
    norm = divisor * sqrt(norm);
    REAL top = y[first + j * n + j], beta = top < 0.0 ? norm : -norm;
    REAL tau = norm == 0.0 ? REAL(0.0) : (beta - top) / beta;
    if (lane == 0u) taus[j] = beta < 0.0 ? tau : -tau; // the sign says whether r has a negative number
    memoryBarrierBuffer();
    barrier();
    for (uint i = j + lane; i < m; i += 128u) {
        if (i == j) y[first + i * n + j] = 1.0;
        else if (tau != 0.0) y[first + i * n + j] /= top - beta;
    }
    memoryBarrierBuffer();
    barrier();
    REFLECT
}
for (uint done = 0u; done < n; ++done) {
    uint j = n - 1u - done;
    REAL tau = abs(taus[j]);
    memoryBarrierBuffer();
    barrier();
    REFLECT
    memoryBarrierBuffer();
    barrier();
    for (uint i = lane; i < m; i += 128u) {
        REAL v = i < j ? REAL(0.0) : i == j ? REAL(1.0) - tau : -tau * y[first + i * n + j];
        y[first + i * n + j] = taus[j] > 0.0 ? -v : v;
    }
}
