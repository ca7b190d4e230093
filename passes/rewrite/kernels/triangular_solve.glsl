// This kernel solves for one element after the other. An invocation reads only its own column in shared memory.

uint lane = gl_LocalInvocationID.x, n = b_dim1, k = b_dim2, column = gl_WorkGroupID.y * 64u + lane;
uint matrix = gl_WorkGroupID.x * n * n, first = gl_WorkGroupID.x * n * k + column;
bool forward = lower != transposed;
if (column < k) {
    for (uint i = 0u; i < n; ++i) {
        uint row = forward ? i : n - 1u - i;
        REAL rest = b[first + row * k];
        for (uint j = 0u; j < i; ++j) {
            uint other = forward ? j : n - 1u - j;
            rest -= a[matrix + (transposed ? other * n + row : row * n + other)] * done[other * 64u + lane];
        }
        rest /= a[matrix + row * n + row];
        done[row * 64u + lane] = rest;
        y[first + row * k] = rest;
    }
}
