// A workgroup folds one chunk, for up to 32 columns. Each of its teams of `width` invocations folds every teams-th row.
// Then team 0 folds the results of the teams.

uint local = gl_LocalInvocationID.x, column = gl_WorkGroupID.y * 32u;
uint width = min(32u, folded_dim1 - column), teams = 128u / width, team = local / width;
uint begin = gl_WorkGroupID.x * uint(chunk), end = min(begin + uint(chunk), sorted_dim0);
column += local % width;
bool equal = begin < end && end - begin == uint(chunk) && sorted[begin] == sorted[end - 1u];
TYPE sum = NONE;
if (equal && team < teams) {
    for (uint k = begin + team; k < end; k += teams) {
        sum = fold(sum, ROW);
    }
}
parts[local] = sum;
barrier();
if (team == 0u) {
    for (uint i = 1u; i < teams; ++i) sum = fold(sum, parts[i * width + local]);
    STORE
}
