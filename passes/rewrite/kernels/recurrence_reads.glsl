// These lines compute read, the matmul of the state from before this time and a. Two halves of shared memory take turns,
// so that one barrier suffices at each time.

        uint a_at = (time * a_dim2 + head * a_dim2 / heads) * state_dim1;
        uint b_at = (time * b_dim2 + head * b_dim2 / heads) * state_dim1;
        double read = 0.0;
        [[unroll]] for (uint i = 0u; i < width; ++i) {
            uint n = i * 16u + lane;
            if (n < state_dim1) read += s[i] * a[a_at + n];
        }
        uint turn = t % 2u * 128u;
        reads[turn + local] = read;
        barrier();
        read = 0.0;
        [[unroll]] for (uint i = 0u; i < 16u; ++i) read += reads[turn + local - lane + i];
