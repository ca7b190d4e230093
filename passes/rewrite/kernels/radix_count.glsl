// This kernel counts how many keys of a chunk have each digit.

uint local = gl_LocalInvocationID.x, row = gl_WorkGroupID.x, chunk = gl_WorkGroupID.y;
for (uint digit = local; digit < 256u; digit += 128u) bins[digit] = 0u;
barrier();
uint end = min(keys_dim1, chunk * 4096u + 4096u);
for (uint j = chunk * 4096u + local; j < end; j += 1024u) {
    uint key[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) key[i] = j + 128u * i < end ? keys[row * keys_dim1 + j + 128u * i] : 0u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        if (j + 128u * i < end) atomicAdd(bins[key[i] >> shift & 255u], 1u);
    }
}
barrier();
for (uint digit = local; digit < 256u; digit += 128u) {
    counts[(row * 256u + digit) * counts_dim2 + chunk] = bins[digit];
}
