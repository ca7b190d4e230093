// This kernel accumulates updates in memory. Each index has a row of values.

uint columns = values_size / max(indices_size, 1u);
uint local = gl_LocalInvocationID.x;
uint end = min(values_size, (gl_WorkGroupID.x + 1u) * TILE);
LOOP
