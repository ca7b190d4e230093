// This kernel accumulates updates of a window of destinations in shared memory, in several copies. Each index has a row
// of values.

uint columns = values_size / max(indices_size, 1u);
uint local = gl_LocalInvocationID.x;
uint end = min(values_size, (gl_WorkGroupID.x + 1u) * TILE);
uint begin = uint(slots) > WINDOW ? gl_WorkGroupID.y * WINDOW : 0u, count = min(uint(slots) - begin, WINDOW);
uint stride = count * WORDS | 1u, copies = min(ROOM / stride, 32u);
uint mine = local % copies * stride;
for (uint i = local; i < ROOM; i += LANES) bins[i] = NOTHING;
barrier();
LOOP
barrier();
for (uint slot = begin + local; slot < begin + count; slot += LANES) {
    for (uint copy = 0u; copy < copies; ++copy) {
        uint at = copy * stride + (slot - begin) * WORDS;
        FLUSH
    }
}
