// These lines apply the reflection of column j to the columns after it. tau is the factor of the reflection.

for (uint k = j + 1u + lane; k < n; k += 128u) {
        REAL along = 0.0;
        for (uint i = j; i < m; ++i) along += y[first + i * n + j] * y[first + i * n + k];
        along *= tau;
        for (uint i = j; i < m; ++i) y[first + i * n + k] -= along * y[first + i * n + j];
    }
