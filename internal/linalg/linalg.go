// Package linalg factors small matrices of float64, and solves systems of equations. Matrices are row-major slices. It
// defines the ops of linear algebra, and computes them on the processor (M-linear-algebra).
package linalg

import "math"

// Cholesky sets l to the lower triangular matrix with l*lᵀ = a, for symmetric positive definite a of n rows (Golub and
// Van Loan, Matrix Computations, 4th edition, 4.2). It reads the lower triangle of a. If a is not positive definite,
// all of the lower triangle of l is NaN.
func Cholesky(l, a []float64, n int) {
	for i := 0; i < n; i += 4 { // four rows at a time, to load earlier rows less often
		rows := min(4, n-i)
		for r := i; r < i+rows; r++ {
			copy(l[r*n:], a[r*n:r*n+r+1])
			clear(l[r*n+r+1 : (r+1)*n]) // above the diagonal
		}
		if rows == 4 {
			a0, a1, a2, a3 := l[i*n:], l[(i+1)*n:], l[(i+2)*n:], l[(i+3)*n:]
			for j := range i {
				row := l[j*n : j*n+j+1]
				s0, s1, s2, s3 := dot4(row[:j], a0, a1, a2, a3)
				scale := 1 / row[j] // row[j] is on the diagonal
				a0[j], a1[j], a2[j], a3[j] = (a0[j]-s0)*scale, (a1[j]-s1)*scale, (a2[j]-s2)*scale, (a3[j]-s3)*scale
			}
		}
		for r := i; r < i+rows; r++ {
			row, from := l[r*n:], i
			if rows < 4 {
				from = 0 // too few rows for the loop above
			}
			for j := from; j <= r; j++ {
				s := row[j] - dot(row[:j], l[j*n:])
				if j < r {
					row[j] = s / l[j*n+j]
					continue
				}
				if !(s > 0) || math.IsInf(s, 1) { // a is not positive definite, or has NaN
					fillLower(l, n, math.NaN())
					return
				}
				row[j] = math.Sqrt(s)
			}
		}
	}
}

// fillLower sets the lower triangle to v, and the rest to 0.
func fillLower(l []float64, n int, v float64) {
	for i := range n {
		for j := range n {
			l[i*n+j] = 0
			if j <= i {
				l[i*n+j] = v
			}
		}
	}
}

// dot returns the sum of x[i]*y[i] over the elements of x.
func dot(x, y []float64) float64 {
	y = y[:len(x)]
	// Two sums let the CPU add in parallel. Conversions forbid fused multiply-adds, which not every CPU has.
	var s0, s1 float64
	for len(x) >= 2 {
		s0, s1 = s0+float64(x[0]*y[0]), s1+float64(x[1]*y[1])
		x, y = x[2:], y[2:]
	}
	if len(x) > 0 {
		s0 += float64(x[0] * y[0])
	}
	return s0 + s1
}

// dot4 returns the dot products of x and four others.
func dot4(x, a, b, c, d []float64) (sa, sb, sc, sd float64) {
	a, b, c, d = a[:len(x)], b[:len(x)], c[:len(x)], d[:len(x)]
	for i, v := range x {
		sa += float64(v * a[i])
		sb += float64(v * b[i])
		sc += float64(v * c[i])
		sd += float64(v * d[i])
	}
	return
}

// SolveTriangular sets x to the solution of a*x = b, or aᵀ*x = b if transpose is set. a has n rows, and b and x have n
// rows of k elements. It reads only the lower triangle of a if lower is set, or else the upper one.
func SolveTriangular(x, a, b []float64, n, k int, lower, transpose bool) {
	copy(x, b)
	// A lower matrix is solved from the first row on, and so is a transposed upper one.
	forward := lower != transpose
	for step := range n {
		i := step
		if !forward {
			i = n - 1 - step
		}
		row := x[i*k : (i+1)*k]
		from, to := 0, i // the elements of row i of a beside the diagonal
		if !lower {
			from, to = i+1, n
		}
		// Rows of the solution that are known enter row i.
		if !transpose {
			subtract(row, x[from*k:to*k], a[i*n+from:i*n+to])
		}
		for c := range row {
			row[c] /= a[i*n+i]
		}
		// Row i of a is column i of aᵀ: it takes the new row of the solution out of the rows that follow.
		if transpose {
			spread(x[from*k:to*k], row, a[i*n+from:i*n+to])
		}
	}
}

// subtract subtracts a linear combination from row: the rows of x, which have row's length, times the factors.
func subtract(row, x, factors []float64) {
	k := len(row)
	if k == 1 {
		row[0] -= dot(factors, x)
		return
	}
	// Four rows at a time read and write row once.
	for ; len(factors) >= 4; factors, x = factors[4:], x[4*k:] {
		f0, f1, f2, f3 := factors[0], factors[1], factors[2], factors[3]
		x0, x1, x2, x3 := x[:k], x[k:2*k], x[2*k:3*k], x[3*k:4*k]
		for c := range row {
			row[c] -= float64(f0*x0[c]) + float64(f1*x1[c]) + float64(f2*x2[c]) + float64(f3*x3[c])
		}
	}
	for i, f := range factors {
		for c, v := range x[i*k : (i+1)*k] {
			row[c] -= float64(f * v)
		}
	}
}

// spread subtracts row, times the factors, from the rows of x.
func spread(x, row, factors []float64) {
	k := len(row)
	for i, f := range factors {
		to := x[i*k : (i+1)*k]
		for c, v := range row {
			to[c] -= float64(f * v)
		}
	}
}

// QR sets q to the m by n matrix with orthonormal columns for which q*r = a, with an upper triangular r without
// negative elements on its diagonal. a has m rows and n <= m columns. It multiplies Householder reflections (Golub and
// Van Loan, 5.2.2). work has 2n elements.
func QR(q, a, work []float64, m, n int) {
	copy(q, a[:m*n])
	w, taus := work[:n], work[n:2*n]
	negative := make([]bool, n)
	for j := range n {
		norm, alpha := columnNorm(q, m, n, j), q[j*n+j]
		beta := -math.Copysign(norm, alpha)
		negative[j], taus[j] = beta < 0, 0
		if norm == 0 {
			continue
		}
		taus[j] = (beta - alpha) / beta
		for i := j + 1; i < m; i++ {
			q[i*n+j] /= alpha - beta
		}
		q[j*n+j] = 1
		reflect(q, w, taus[j], m, n, j)
	}
	// Now q has the reflections: column j from row j on is the vector of the j-th. Replace them by their product.
	for j := n - 1; j >= 0; j-- {
		q[j*n+j] = 1
		if taus[j] == 0 { // the column has no reflection
			for i := j + 1; i < m; i++ {
				q[i*n+j] = 0
			}
		}
		reflect(q, w, taus[j], m, n, j)
		for i := range m {
			switch {
			case i < j:
				q[i*n+j] = 0
			case i == j:
				q[i*n+j] = 1 - taus[j]
			default:
				q[i*n+j] *= -taus[j]
			}
		}
	}
	for i := range m {
		for j, negate := range negative {
			if negate { // so that r has no negative element on its diagonal
				q[i*n+j] = -q[i*n+j]
			}
		}
	}
}

// columnNorm returns the Euclidean norm of column j of q from row j on. It scales by the largest element, so that no
// square overflows.
func columnNorm(q []float64, m, n, j int) float64 {
	var sum, largest float64
	for i := j; i < m; i++ {
		largest = max(largest, math.Abs(q[i*n+j]))
	}
	if !(largest > 0) || math.IsInf(largest, 1) {
		return largest // 0, infinite or NaN
	}
	for i := j; i < m; i++ {
		v := q[i*n+j] / largest
		sum += float64(v * v)
	}
	return float64(largest * math.Sqrt(sum))
}

// reflect applies the reflection 1 - tau*v*vᵀ to the columns of q [m,n] after column j. v is column j from row j on. w
// is scratch of n elements.
func reflect(q, w []float64, tau float64, m, n, j int) {
	w = w[j+1 : n]
	clear(w)
	// Set w to vᵀ times the columns.
	i := j
	for ; i+4 <= m; i += 4 { // four rows at a time, to load and store w less often
		v0, v1, v2, v3 := q[i*n+j], q[(i+1)*n+j], q[(i+2)*n+j], q[(i+3)*n+j]
		r0, r1 := q[i*n+j+1:][:len(w)], q[(i+1)*n+j+1:][:len(w)]
		r2, r3 := q[(i+2)*n+j+1:][:len(w)], q[(i+3)*n+j+1:][:len(w)]
		for c := range w {
			w[c] += float64(v0*r0[c]) + float64(v1*r1[c]) + float64(v2*r2[c]) + float64(v3*r3[c])
		}
	}
	for ; i < m; i++ {
		row, v := q[i*n+j+1:(i+1)*n], q[i*n+j]
		for c, x := range row {
			w[c] += float64(v * x)
		}
	}
	// Subtract tau*v*w.
	for i := j; i < m; i++ {
		row, v := q[i*n+j+1:][:len(w)], tau*q[i*n+j]
		for c, x := range w {
			row[c] -= float64(v * x)
		}
	}
}

// EigH sets the columns of v to the orthonormal eigenvectors of the symmetric matrix a of n rows, in ascending order of
// the eigenvalues. In each vector the element of the largest magnitude is positive. It reads the lower triangle of a.
// It reduces a to a tridiagonal matrix by reflections, and that one to a diagonal by QL steps with implicit shifts
// (Golub and Van Loan, 8.3).
func EigH(v, a []float64, n int) {
	diagonal, off := make([]float64, n), make([]float64, n)
	t := make([]float64, n*n) // rows are vectors
	for i := range n {
		for j := range i + 1 {
			t[i*n+j], t[j*n+i] = a[i*n+j], a[i*n+j]
		}
	}
	tridiagonal(t, diagonal, off, n)
	if !diagonalize(t, diagonal, off, n) {
		for i := range n * n {
			v[i] = math.NaN()
		}
		return
	}
	// Sort the eigenvalues by insertion.
	order := make([]int, n)
	for i := range order {
		j := i
		for ; j > 0 && diagonal[order[j-1]] > diagonal[i]; j-- {
			order[j] = order[j-1]
		}
		order[j] = i
	}
	for c, from := range order {
		// Eigenvectors have a sign of choice: make the largest element positive.
		row, largest := t[from*n:(from+1)*n], 0.0
		for _, x := range row {
			if math.Abs(x) > math.Abs(largest) {
				largest = x
			}
		}
		sign := math.Copysign(1, largest)
		for i, x := range row {
			v[i*n+c] = sign * x
		}
	}
}

// tridiagonal replaces the symmetric matrix t by qᵀ, for an orthogonal q such that qᵀ*t*q is tridiagonal (Golub and Van
// Loan, 8.3.1). It sets diagonal to the diagonal of qᵀ*t*q, and off[i] to the element next to elements i and i+1 of it.
func tridiagonal(t, diagonal, off []float64, n int) {
	vectors, taus := make([]float64, n*n), make([]float64, n) // of the reflections, by the column that each clears
	p := make([]float64, n)
	for k := 0; k+2 < n; k++ {
		v := vectors[k*n : (k+1)*n] // reflects column k below the diagonal to a multiple of a unit vector
		norm := 0.0
		for i := k + 1; i < n; i++ {
			v[i] = t[k*n+i]
			norm = math.Hypot(norm, v[i])
		}
		off[k] = norm
		if norm == 0 {
			continue
		}
		beta := -math.Copysign(norm, v[k+1])
		scale := v[k+1] - beta
		off[k], taus[k], v[k+1] = beta, -scale/beta, scale
		for i := k + 1; i < n; i++ {
			v[i] /= scale
		}
		reflectSides(t, v, p, taus[k], k+1, n)
	}
	for i := range n {
		diagonal[i] = t[i*n+i]
	}
	if n > 1 {
		off[n-2] = t[(n-2)*n+n-1]
	}
	off[n-1] = 0
	// Now t becomes qᵀ = … h1*h0: multiply the identity by each reflection from the right.
	clear(t)
	for i := range n {
		t[i*n+i] = 1
	}
	for k := n - 3; k >= 0; k-- {
		v, tau := vectors[k*n+k+1:(k+1)*n], taus[k]
		for i := k + 1; i < n; i++ {
			row := t[i*n+k+1 : (i+1)*n]
			f := tau * dot(v, row)
			for j, x := range v {
				row[j] -= float64(f * x)
			}
		}
	}
}

// reflectSides replaces the symmetric matrix t by h*t*h for the reflection h = 1 - tau*v*vᵀ, in the rows and columns
// from first on. v is 0 before first. p is scratch of n elements.
func reflectSides(t, v, p []float64, tau float64, first, n int) {
	// h*t*h = t - v*wᵀ - w*vᵀ with p = tau*t*v and w = p - tau/2*(pᵀv)*v.
	inner := 0.0
	for i := first; i < n; i++ {
		p[i] = tau * dot(v[first:], t[i*n+first:(i+1)*n])
		inner += float64(p[i] * v[i])
	}
	for i := first; i < n; i++ {
		p[i] -= float64(tau / 2 * inner * v[i]) // now w
	}
	for i := first; i < n; i++ {
		row, a, b := t[i*n:(i+1)*n], v[i], p[i]
		for j := first; j < n; j++ {
			row[j] -= float64(a*p[j]) + float64(b*v[j])
		}
	}
}

// maxSteps is the most QL steps for one eigenvalue. Two or three are usual.
const maxSteps = 60

// diagonalize applies QL steps to a tridiagonal matrix until it is diagonal (Golub and Van Loan, 8.3.3, with implicit
// shifts). d has the diagonal, and e[i] is the element next to elements i and i+1 of it. In the end d has the
// eigenvalues. It applies the same rotations to the rows of z. It reports whether that succeeded: it fails only if an
// element is not finite.
func diagonalize(z, d, e []float64, n int) bool {
	for first := range n {
		for step := 0; ; step++ {
			last := first // of the block that first begins
			for ; last+1 < n; last++ {
				if size := math.Abs(d[last]) + math.Abs(d[last+1]); math.Abs(e[last]) <= 0x1p-53*size {
					break // it would be lost in rounding: the matrix splits here
				}
			}
			if last == first {
				break
			}
			if step == maxSteps {
				return false
			}
			// The shift is the eigenvalue of the first 2x2 block that is nearer to d[first].
			g := (d[first+1] - d[first]) / (2 * e[first])
			g = d[last] - d[first] + e[first]/(g+math.Copysign(math.Hypot(g, 1), g))
			sin, cos, shift := 1.0, 1.0, 0.0
			i := last - 1
			for ; i >= first; i-- {
				f, b := float64(sin*e[i]), float64(cos*e[i])
				r := math.Hypot(f, g)
				e[i+1] = r
				if r == 0 { // the matrix has split
					d[i+1] -= shift
					break
				}
				sin, cos = f/r, g/r
				g = d[i+1] - shift
				r = float64((d[i]-g)*sin) + float64(2*cos*b)
				shift = float64(sin * r)
				d[i+1] = g + shift
				g = float64(cos*r) - b
				rotate(z[i*n:(i+1)*n], z[(i+1)*n:(i+2)*n], sin, cos)
			}
			if i < first {
				d[first] -= shift
				e[first] = g
			}
			e[last] = 0
		}
	}
	return !math.IsNaN(d[0])
}

// rotate turns each pair of elements of two rows.
func rotate(a, b []float64, sin, cos float64) {
	b = b[:len(a)]
	for i, x := range a {
		y := b[i]
		a[i], b[i] = float64(cos*x)-float64(sin*y), float64(sin*x)+float64(cos*y)
	}
}
