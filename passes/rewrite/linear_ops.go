package rewrite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/linalg"
	"github.com/vkc-go/vkc/ir"
)

// The kernels of linear algebra. A workgroup factors one matrix: in shared memory if it is a block of a larger one, or
// else in memory. No kernel family has such loops, so they are custom ops with a Go reference.

// reals has the kernels for a dtype of real numbers.
type reals struct {
	cholesky, triangularSolve, qr, eigH ir.Op
	block                               int64 // rows of the largest matrix in shared memory
}

var (
	singles = newReals(realType{ir.F32, "float", 64, "3.402823e38", "uintBitsToFloat(0x7fc00000u)", "1e-13"})
	doubles = newReals(realType{ir.F64, "double", 32, "1.797693134862315e308lf",
		"packDouble2x32(uvec2(0u, 0x7ff80000u))", "1e-30"})
)

// realsOf returns the kernels for f32 or f64.
func realsOf(t ir.DType) reals {
	if t == ir.F64 {
		return doubles
	}
	return singles
}

// realType is a dtype of real numbers, and its part of the kernels' GLSL.
type realType struct {
	ir.DType
	glsl string
	// block is the number of rows of a block of a matrix. In 16 KiB of shared memory, which every device has, there is
	// room for a block of matrix or for a block of rows for each of 64 invocations.
	block               int64
	largest, nan, small string // the largest number, NaN, and the relative sum of squares that counts as zero
}

// newReals registers the kernels for a dtype.
func newReals(t realType) reals {
	r, size := reals{block: t.block}, t.BlockBytes()
	x := []ir.ArgInfo{{Name: "x"}}
	aMatrix := [3][]ir.GridRule{{{Of: "y", Axis: 0, Tile: 1}}} // a workgroup for each matrix
	r.cholesky = t.register(matrixKernel{
		name: "cholesky", doc: "Lower triangular factors of positive definite matrices, in shared memory.", args: x,
		kernel: ir.CustomKernel{
			Outputs: []string{"y"}, Workgroup: [3]int{128}, Grid: aMatrix,
			Shared: "shared REAL tile[BLOCK * BLOCK];", SharedBytes: size * int(t.block*t.block), Body: choleskyBody,
		},
		compute: func(args []*ir.Data, values [][]float64, out []float64, _ ir.Attrs) {
			linalg.Cholesky(out, values[0], args[0].Dims[1])
		},
	})
	r.triangularSolve = t.register(matrixKernel{
		name: "triangular_solve", doc: "Solutions of triangular systems. Each invocation solves for a column.",
		args:  []ir.ArgInfo{{Name: "a"}, {Name: "b"}},
		attrs: []ir.AttrInfo{{Name: "lower", Kind: ir.AttrBool}, {Name: "transposed", Kind: ir.AttrBool}},
		kernel: ir.CustomKernel{
			Outputs: []string{"y"}, Workgroup: [3]int{64},
			Grid:   [3][]ir.GridRule{{{Of: "y", Axis: 0, Tile: 1}}, {{Of: "y", Axis: 2, Tile: 64}}},
			Shared: "shared REAL done[BLOCK * 64u];", SharedBytes: size * int(t.block) * 64, Body: solveBody,
		},
		compute: func(args []*ir.Data, values [][]float64, out []float64, a ir.Attrs) {
			linalg.SolveTriangular(out, values[0], values[1], args[1].Dims[1], args[1].Dims[2], a.Bool("lower"),
				a.Bool("transposed"))
		},
	})
	r.qr = t.register(matrixKernel{
		name: "qr", doc: "Orthonormal columns by Householder reflections (Golub and Van Loan, 5.2.2).", args: x,
		kernel: ir.CustomKernel{
			Outputs: []string{"y"}, Zeroed: []string{"y"}, Workgroup: [3]int{128}, Grid: aMatrix,
			Shared: sharedSums + "\nshared REAL taus[1024];", SharedBytes: size * (128 + 1024), Body: qrBody,
		},
		compute: func(args []*ir.Data, values [][]float64, out []float64, _ ir.Attrs) {
			m, n := args[0].Dims[1], args[0].Dims[2]
			linalg.QR(out, values[0], make([]float64, 2*n), m, n)
		},
	})
	r.eigH = t.register(matrixKernel{
		name: "eigh", doc: "Eigenvectors by Jacobi rotations, half as many at a time as there are rows " +
			"(Brent and Luk 1985).", args: x,
		kernel: ir.CustomKernel{
			Outputs: []string{"y", "room"}, Zeroed: []string{"y", "room"}, Workgroup: [3]int{128}, Grid: aMatrix,
			Shared: eigHShared, SharedBytes: size*(128+1024) + 4*1024, Body: eigHBody,
		},
		compute: func(args []*ir.Data, values [][]float64, out []float64, _ ir.Attrs) {
			linalg.EigH(out, values[0], args[0].Dims[1])
		},
	})
	return r
}

// matrixKernel is a kernel of linear algebra for any dtype: register replaces the words in capital letters in its GLSL.
type matrixKernel struct {
	name, doc string
	args      []ir.ArgInfo // matrices [matrices, rows, columns]; the last has the extents of the results
	attrs     []ir.AttrInfo
	kernel    ir.CustomKernel
	compute   matrixFunc
}

// matrixFunc is the Go reference of a kernel for one matrix of each argument. values has their elements, and args the
// arguments themselves.
type matrixFunc func(args []*ir.Data, values [][]float64, out []float64, a ir.Attrs)

// register registers a kernel for the dtype as a custom op.
func (t realType) register(m matrixKernel) ir.Op {
	source := strings.NewReplacer("REAL", t.glsl, "BLOCK", fmt.Sprintf("%du", t.block), "LARGEST", t.largest,
		"NAN", t.nan, "SMALL", t.small)
	k := m.kernel
	k.Body, k.Shared = source.Replace(k.Body), source.Replace(k.Shared)
	last := len(m.args) - 1
	return ir.MustRegisterCustom(ir.CustomOp{
		Name: "vkc." + m.name + "_" + t.String(), Doc: m.doc, Args: m.args, Attrs: m.attrs, Kernel: &k,
		Infer: func(c *ir.Call) ([]ir.Type, error) {
			for i := range c.Args {
				if c.DType(i) != t.DType || len(c.Shape(i)) != 3 {
					return nil, fmt.Errorf("want matrices [matrices, rows, columns] of %s", t)
				}
			}
			return slices.Repeat([]ir.Type{{DType: t.DType, Shape: c.Shape(last)}}, len(k.Outputs)), nil
		},
		Reference: func(args []*ir.Data, a ir.Attrs) ([]*ir.Data, error) {
			d, err := eachMatrix(args, args[last].Dims, a, m.compute)
			return slices.Repeat([]*ir.Data{d}, len(k.Outputs)), err
		},
	})
}

// eachMatrix computes the Go reference of a kernel: it calls f for each matrix of the arguments. The result has the
// given extents, [matrices, rows, columns].
func eachMatrix(args []*ir.Data, dims []int, a ir.Attrs, f matrixFunc) (*ir.Data, error) {
	count, size := dims[0], dims[1]*dims[2]
	all, out := make([][]float64, len(args)), make([]float64, count*size)
	for i, d := range args {
		var err error
		if all[i], err = d.Floats(); err != nil {
			return nil, err
		}
	}
	for i := range count {
		values := make([][]float64, len(args))
		for j, x := range all {
			values[j] = x[i*len(x)/count : (i+1)*len(x)/count]
		}
		f(args, values, out[i*size:(i+1)*size], a)
	}
	return ir.FromFloats(args[0].DType, out, dims...)
}

// choleskyBody factors one column after the other, and subtracts the column's outer product from the columns after it.
const choleskyBody = `uint lane = gl_LocalInvocationID.x, n = x_dim1, first = gl_WorkGroupID.x * n * n;
for (uint e = lane; e < n * n; e += 128u) tile[e] = x[first + e];
bool bad = false;
for (uint j = 0u; j < n; ++j) {
    barrier();
    REAL square = tile[j * n + j];
    bad = bad || !(square > 0.0 && square <= LARGEST);
    REAL root = sqrt(square);
    barrier();
    for (uint i = j + lane; i < n; i += 128u) tile[i * n + j] = i == j ? root : tile[i * n + j] / root;
    barrier();
    uint left = n - j - 1u;
    for (uint e = lane; e < left * left; e += 128u) {
        uint i = j + 1u + e / left, k = j + 1u + e % left;
        if (k <= i) tile[i * n + k] -= tile[i * n + j] * tile[k * n + j];
    }
}
barrier();
for (uint e = lane; e < n * n; e += 128u) y[first + e] = e % n > e / n ? REAL(0.0) : bad ? NAN : tile[e];`

// solveBody solves for one element after the other. An invocation reads only its own column in shared memory.
const solveBody = `uint lane = gl_LocalInvocationID.x, n = b_dim1, k = b_dim2, column = gl_WorkGroupID.y * 64u + lane;
uint matrix = gl_WorkGroupID.x * n * n, first = gl_WorkGroupID.x * n * k + column;
bool forward = lower != transposed;
if (column < k) {
    for (uint i = 0u; i < n; ++i) {
        uint row = forward ? i : n - 1u - i;
        REAL rest = b[first + row * k];
        for (uint j = 0u; j < i; ++j) {
            uint other = forward ? j : n - 1u - j;
            rest -= a[matrix + (transposed ? other * n + row : row * n + other)] * done[other * 64u + lane];
        }
        rest /= a[matrix + row * n + row];
        done[row * 64u + lane] = rest;
        y[first + row * k] = rest;
    }
}`

// sharedSums is GLSL for one value of each invocation in shared memory, which the kernels below add up.
const sharedSums = "shared REAL sums[128];"

// qrBody makes the reflections of all columns in y, and then multiplies them in reverse order.
var qrBody = strings.NewReplacer("REFLECT", `for (uint k = j + 1u + lane; k < n; k += 128u) {
        REAL along = 0.0;
        for (uint i = j; i < m; ++i) along += y[first + i * n + j] * y[first + i * n + k];
        along *= tau;
        for (uint i = j; i < m; ++i) y[first + i * n + k] -= along * y[first + i * n + j];
    }`).Replace(`uint lane = gl_LocalInvocationID.x, m = x_dim1, n = x_dim2, first = gl_WorkGroupID.x * m * n;
for (uint e = lane; e < m * n; e += 128u) y[first + e] = x[first + e];
for (uint j = 0u; j < n; ++j) {
    memoryBarrierBuffer();
    barrier();
    REAL largest = 0.0, norm = 0.0;
    for (uint i = j + lane; i < m; i += 128u) largest = max(largest, abs(y[first + i * n + j]));
    sums[lane] = largest;
    barrier();
    for (uint i = 0u; i < 128u; ++i) largest = max(largest, sums[i]);
    barrier();
    REAL divisor = largest > 0.0 ? largest : REAL(1.0);
    for (uint i = j + lane; i < m; i += 128u) {
        REAL v = y[first + i * n + j] / divisor;
        norm += v * v;
    }
    sums[lane] = norm;
    barrier();
    norm = 0.0;
    for (uint i = 0u; i < 128u; ++i) norm += sums[i];
    norm = divisor * sqrt(norm);
    REAL top = y[first + j * n + j], beta = top < 0.0 ? norm : -norm;
    REAL tau = norm == 0.0 ? REAL(0.0) : (beta - top) / beta;
    if (lane == 0u) taus[j] = beta < 0.0 ? tau : -tau; // the sign says whether r has a negative number
    memoryBarrierBuffer();
    barrier();
    for (uint i = j + lane; i < m; i += 128u) {
        if (i == j) y[first + i * n + j] = 1.0;
        else if (tau != 0.0) y[first + i * n + j] /= top - beta;
    }
    memoryBarrierBuffer();
    barrier();
    REFLECT
}
for (uint done = 0u; done < n; ++done) {
    uint j = n - 1u - done;
    REAL tau = abs(taus[j]);
    memoryBarrierBuffer();
    barrier();
    REFLECT
    memoryBarrierBuffer();
    barrier();
    for (uint i = lane; i < m; i += 128u) {
        REAL v = i < j ? REAL(0.0) : i == j ? REAL(1.0) - tau : -tau * y[first + i * n + j];
        y[first + i * n + j] = taus[j] > 0.0 ? -v : v;
    }
}`)

// eigHShared is the shared memory of eigHBody, and the function that chooses its rotations.
const eigHShared = sharedSums + `
shared REAL cosines[512];
shared REAL sines[512];
shared uint columns[1024];
uvec2 pair(uint i, uint step, uint places) { // the rows of rotation i: in each step, others meet
    uint a = i == 0u ? places : (step + i) % places, b = (step + places - i) % places;
    return uvec2(min(a, b), max(a, b));
}`

// eigHBody rotates pairs of rows and columns of room, until only its diagonal is left. y has the product of all
// rotations.
const eigHBody = `uint lane = gl_LocalInvocationID.x, n = x_dim1, first = gl_WorkGroupID.x * n * n;
for (uint e = lane; e < n * n; e += 128u) {
    uint i = e / n, j = e % n;
    room[first + e] = x[first + max(i, j) * n + min(i, j)];
    y[first + e] = i == j ? 1.0 : 0.0;
}
uint places = n + (n & 1u) - 1u, pairs = places / 2u + 1u;
for (uint sweep = 0u; sweep < 20u; ++sweep) {
    memoryBarrierBuffer();
    barrier();
    REAL off = 0.0, all = 0.0;
    for (uint e = lane; e < n * n; e += 128u) {
        REAL v = room[first + e];
        all += v * v;
        if (e / n != e % n) off += v * v;
    }
    sums[lane] = off;
    barrier();
    off = 0.0;
    for (uint i = 0u; i < 128u; ++i) off += sums[i];
    barrier();
    sums[lane] = all;
    barrier();
    all = 0.0;
    for (uint i = 0u; i < 128u; ++i) all += sums[i];
    if (!(off > SMALL * all)) break;
    for (uint step = 0u; step < places; ++step) {
        memoryBarrierBuffer();
        barrier();
        for (uint i = lane; i < pairs; i += 128u) {
            uvec2 at = pair(i, step, places);
            REAL cosine = 1.0, sine = 0.0;
            if (at.y < n) {
                REAL off_diagonal = room[first + at.x * n + at.y];
                if (off_diagonal != 0.0) {
                    REAL ratio = (room[first + at.y * n + at.y] - room[first + at.x * n + at.x]) / (2.0 * off_diagonal);
                    REAL tangent = (ratio < 0.0 ? -1.0 : 1.0) / (abs(ratio) + sqrt(ratio * ratio + 1.0));
                    cosine = 1.0 / sqrt(tangent * tangent + 1.0);
                    sine = tangent * cosine;
                }
            }
            cosines[i] = cosine;
            sines[i] = sine;
        }
        barrier();
        for (uint e = lane; e < pairs * n; e += 128u) {
            uvec2 at = pair(e / n, step, places) * n + e % n;
            REAL cosine = cosines[e / n], sine = sines[e / n];
            if (at.y < n * n) {
                REAL a = room[first + at.x], b = room[first + at.y];
                room[first + at.x] = cosine * a - sine * b;
                room[first + at.y] = sine * a + cosine * b;
            }
        }
        memoryBarrierBuffer();
        barrier();
        for (uint e = lane; e < pairs * n; e += 128u) {
            uvec2 at = pair(e / n, step, places);
            REAL cosine = cosines[e / n], sine = sines[e / n];
            if (at.y < n) {
                at += e % n * n;
                REAL a = room[first + at.x], b = room[first + at.y];
                room[first + at.x] = cosine * a - sine * b;
                room[first + at.y] = sine * a + cosine * b;
                a = y[first + at.x];
                b = y[first + at.y];
                y[first + at.x] = cosine * a - sine * b;
                y[first + at.y] = sine * a + cosine * b;
            }
        }
    }
}
// Each vector's column is the number of smaller eigenvalues. Its largest element becomes positive.
memoryBarrierBuffer();
barrier();
for (uint c = lane; c < n; c += 128u) {
    REAL value = room[first + c * n + c], largest = 0.0;
    uint column = 0u;
    for (uint i = 0u; i < n; ++i) {
        REAL other = room[first + i * n + i];
        if (other < value || other == value && i < c) ++column;
    }
    for (uint i = 0u; i < n; ++i) {
        REAL v = y[first + i * n + c];
        if (abs(v) > abs(largest)) largest = v;
    }
    for (uint i = 0u; i < n; ++i) if (largest < 0.0) y[first + i * n + c] = -y[first + i * n + c];
    columns[c] = column;
}
memoryBarrierBuffer();
barrier();
for (uint e = lane; e < n * n; e += 128u) room[first + e / n * n + columns[e % n]] = y[first + e];
memoryBarrierBuffer();
barrier();
for (uint e = lane; e < n * n; e += 128u) y[first + e] = room[first + e];`
