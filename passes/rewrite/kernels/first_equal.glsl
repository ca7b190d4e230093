// This kernel finds the first position of each wanted key by binary search.

uint first = gl_WorkGroupID.x * 1024u + gl_LocalInvocationID.x;
for (uint i = first; i < min(wanted_dim0, first + 1024u); i += 128u) {
    uint low = 0u, high = sorted_dim0;
    while (low < high) {
        uint middle = (low + high) / 2u;
        if (sorted[middle] < wanted[i]) low = middle + 1u; else high = middle;
    }
    begins[i] = low;
}
