// A workgroup accumulates its elements, eight per invocation at a time so that their loads overlap.

for (uint first = gl_WorkGroupID.x * TILE + local; first < end; first += ROUND) {
    int place[8];
    DECLARE
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        uint e = first + i * LANES;
        place[i] = -1;
        if (e < end) {
            place[i] = indices[e / columns];
            LOAD
        }
    }
    [[unroll]] for (uint i = 0u; i < 8u; ++i) {
        if (place[i] >= 0) {
            uint slot = uint(place[i]) * columns + (first + i * LANES) % columns;
            SCOPE {
                uint at = AT;
                CHANGE
            }
        }
    }
}
