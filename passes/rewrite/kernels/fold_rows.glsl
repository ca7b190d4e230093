// An invocation folds the rows of a wanted key, for one column at a time. If a whole chunk has the key, it takes the
// chunk's result from folded instead of the chunk's rows.

uint width = min(64u, sums_dim1 - gl_WorkGroupID.y * 64u);
uint end = min(128u, sums_dim0 - gl_WorkGroupID.x * 128u) * width;
for (uint e = gl_LocalInvocationID.x; e < end; e += 128u) {
    uint row = gl_WorkGroupID.x * 128u + e / width, column = gl_WorkGroupID.y * 64u + e % width;
    int key = wanted[row];
    TYPE sum = NONE;
    for (uint k = key < 0 ? sorted_dim0 : begins[row]; k < sorted_dim0 && sorted[k] == key;) {
        uint next = k + uint(chunk);
        if (k % uint(chunk) == 0u && next <= sorted_dim0 && sorted[next - 1u] == key) {
            sum = fold(sum, CHUNK);
            k = next;
        } else {
            sum = fold(sum, ROW);
            ++k;
        }
    }
    STORE
}
