// This kernel factors one column after the other, and subtracts the outer product of a column from the columns after it.

uint lane = gl_LocalInvocationID.x, n = x_dim1, first = gl_WorkGroupID.x * n * n;
for (uint e = lane; e < n * n; e += 128u) tile[e] = x[first + e];
bool bad = false;
for (uint j = 0u; j < n; ++j) {
    barrier();
    REAL square = tile[j * n + j];
    bad = bad || !(square > 0.0 && square <= LARGEST);
    REAL root = sqrt(square);
    barrier();
    for (uint i = j + lane; i < n; i += 128u) tile[i * n + j] = i == j ? root : tile[i * n + j] / root;
    barrier();
    uint left = n - j - 1u;
    for (uint e = lane; e < left * left; e += 128u) {
        uint i = j + 1u + e / left, k = j + 1u + e % left;
        if (k <= i) tile[i * n + k] -= tile[i * n + j] * tile[k * n + j];
    }
}
barrier();
for (uint e = lane; e < n * n; e += 128u) y[first + e] = e % n > e / n ? REAL(0.0) : bad ? NAN : tile[e];
