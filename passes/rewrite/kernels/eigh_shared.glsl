// The shared memory of the kernel eigh, and the function that chooses its rotations.

shared REAL cosines[512];
shared REAL sines[512];
shared uint columns[1024];
uvec2 pair(uint i, uint step, uint places) { // the rows of rotation i: in each step, others meet
    uint a = i == 0u ? places : (step + i) % places, b = (step + places - i) % places;
    return uvec2(min(a, b), max(a, b));
}
