// This kernel moves elements to their sorted positions. It sorts a chunk in shared memory before it moves it, so that it
// writes adjacent elements to adjacent positions, which determines the time on an H100. Each group of 32 invocations
// takes a quarter of the chunk, 32 elements at a time. A word of shared memory collects which of these 32 elements have
// the same digit, so that the result depends neither on the order of atomics nor on the subgroup size.

uint local = gl_LocalInvocationID.x, lane = local & 31u, group = local >> 5u << 8u;
uint row = gl_WorkGroupID.x, chunk = gl_WorkGroupID.y, n = keys_dim1;
uint begin = chunk * 4096u, count = min(max(n, begin) - begin, 4096u), first = row * n + begin;
uint mine = (local >> 5u) * 1024u + lane;
for (uint i = local; i < 1024u; i += 128u) {
    next[i] = 0u;
    alike[i] = 0u;
}
for (uint i = local; i < 2048u; i += 128u) order[i] = 0u;
barrier();

// Count each group's digits, eight loads at a time.
for (uint j = mine; j < mine + 1024u; j += 256u) {
    uint key[8];
    [[unroll]] for (uint i = 0u; i < 8u; ++i) key[i] = j + 32u * i < count ? keys[first + j + 32u * i] : 0u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        if (j + 32u * i < count) atomicAdd(next[group + (key[i] >> shift & 255u)], 1u);
    }
}
barrier();

// Where in the chunk's order do they begin? Each invocation has two digits.
uint low = 2u * local, two = 0u;
for (uint i = low; i < 1024u; i += 256u) two += next[i] + next[i + 1u];
uint up_to = two;
alike[local] = up_to;
barrier();
for (uint distance = 1u; distance < 128u; distance <<= 1u) {
    uint other = local >= distance ? alike[local - distance] : 0u;
    barrier();
    up_to += other;
    alike[local] = up_to;
    barrier();
}
alike[local] = 0u;
uint place = up_to - two;
for (uint digit = low; digit < low + 2u; ++digit) {
    for (uint i = digit; i < 1024u; i += 256u) {
        uint those = next[i];
        next[i] = place;
        place += those;
    }
}
barrier();

// Put the chunk in order: two coordinates to a word.
for (uint j = mine; j < mine + 1024u; j += 32u) {
    bool in_row = j < count;
    uint slot = group;
    if (in_row) {
        slot += keys[first + j] >> shift & 255u;
        atomicOr(alike[slot], 1u << lane);
    }
    barrier();
    uint those = alike[slot], start = next[slot];
    uint before = uint(bitCount(those & (1u << lane) - 1u));
    barrier();
    if (in_row) {
        if (before == 0u) {
            next[slot] = start + uint(bitCount(those));
            alike[slot] = 0u;
        }
        uint at = start + before;
        atomicOr(order[at >> 1u & 2047u], j << 16u * (at & 1u));
    }
    barrier();
}

// Now each digit ends where the last group has come to. Move its elements.
for (uint digit = local; digit < 256u; digit += 128u) {
    uint start = digit > 0u ? next[768u + digit - 1u] : 0u;
    next[digit] = starts[(row * 256u + digit) * starts_dim2 + chunk] - start;
}
barrier();
[[unroll]] for (uint i = 0u; i < 32u; ++i) {
    uint at = i * 128u + local;
    if (at < count) {
        uint j = order[at >> 1u] >> 16u * (at & 1u) & 0xffffu, key = keys[first + j];
        uint to = row * n + min(next[key >> shift & 255u] + at, n - 1u);
        places[to] = OLD;
        SORTED
    }
}
