package schedule

import (
	"fmt"
	"math"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// checkCoopMat2 checks a schedule with matrices that belong to a whole workgroup and are loaded and stored by tensor
// addressing.
func checkCoopMat2(k *kernel.Kernel, s kernel.CoopMat2, caps device.Caps) error {
	if err := checkMatrixUnits(k, s.MatrixTile, caps); err != nil {
		return err
	}
	m2 := caps.Matrix2
	switch {
	case !caps.Features.CooperativeMatrix2 || m2 == nil:
		return fmt.Errorf("the device has no VK_NV_cooperative_matrix2")
	case !m2.WorkgroupScope || !m2.FlexibleDimensions || !m2.TensorAddressing || !m2.Conversions || !m2.PerElement:
		return fmt.Errorf("the device's VK_NV_cooperative_matrix2 lacks workgroup scope, flexible dimensions, " +
			"tensor addressing, conversions or per-element operations")
	case !caps.Features.Maintenance4:
		return fmt.Errorf("the device has no maintenance4, which the SPIR-V version needs")
	case uint64(s.Workgroup) > uint64(m2.MaxWorkgroup):
		return fmt.Errorf("workgroup of %d invocations, matrices of workgroup scope allow %d",
			s.Workgroup, m2.MaxWorkgroup)
	case s.Unroll != 0 && !unrolls(k, s):
		return fmt.Errorf("%d steps do not divide the %s of %d of its contraction, or operands are staged",
			s.Unroll, k.Fold, s.TileK)
	case uint64(max(s.TileM, s.TileN, s.TileK)) > uint64(m2.MaxDimension):
		return fmt.Errorf("the tile is larger than matrices may be, %d", m2.MaxDimension)
	}
	t, _ := MatrixDType(k)
	if t == ir.BF16 && !caps.Features.Int16 {
		return fmt.Errorf("the device has no 16-bit integers, as which bf16 lies in buffers")
	}
	if s.PiecesM < 0 || s.PiecesN < 0 {
		return fmt.Errorf("a tile in %dx%d pieces", s.PiecesM, s.PiecesN)
	}
	if !m2.Offers(s, component(t), component(SumsDType(k))) {
		return fmt.Errorf("the device has no %s matrices in steps that divide %dx%dx%d for %d invocations", t, s.TileM,
			s.TileN, s.TileK, s.Workgroup)
	}
	if n := laneSums(k, s.MatrixTile); n > maxLaneSums {
		return fmt.Errorf("%d sums per invocation, more than %d spill", n, maxLaneSums)
	}
	if matrixStage(k, s) == 0 { // no operand passes through shared memory: the rest does not matter
		return nil
	}
	if down, across := s.Pieces(); down*across > 1 {
		return fmt.Errorf("a tile in pieces, of operands that are staged as a whole")
	}
	if unit := UnitElems(k, s); s.TileM%unit != 0 || s.TileN%unit != 0 || s.TileK%unit != 0 {
		return fmt.Errorf("tiles must be multiples of %d, the neighbours that are staged together", unit)
	}
	if n := SharedBytes(k, s) + int(m2.ReservedShared); n > int(caps.MaxSharedMemory) {
		return fmt.Errorf("%d bytes of shared memory with the driver's own, the device has %d", n, caps.MaxSharedMemory)
	}
	return nil
}

// maxUnroll limits the number of unrolled steps: more steps only take longer to compile.
const maxUnroll = 64

// unrolls reports whether the steps of a matmul can be unrolled in groups of s.Unroll.
func unrolls(k *kernel.Kernel, s kernel.CoopMat2) bool {
	return s.Unroll > 0 && s.Unroll <= maxUnroll && k.Fold.IsStatic() && k.Fold.Add > 0 &&
		DivisibleBy(k.Fold, s.Unroll*s.TileK) && matrixStage(k, s) == 0
}

// stepsUnrolled returns the largest number of steps, from `fewest` to `most`, that one loop iteration of a matmul with
// schedule s can have, or 0 if there is none.
func stepsUnrolled(k *kernel.Kernel, s kernel.CoopMat2, fewest, most int) int {
	for n := most; n >= max(fewest, 1); n-- {
		s.Unroll = n
		if unrolls(k, s) {
			return n
		}
	}
	return 0
}

// tensorAlignment is the alignment in bytes that tensor addressing requires of a tensor.
const tensorAlignment = 16

// checkTensorOperand returns an error if tensor addressing cannot load operand v directly, in pieces of step elements
// along the contraction axis. other is the operand's other axis, and t its dtype.
func checkTensorOperand(k *kernel.Kernel, step int, v *kernel.Expr, other int, t ir.DType) error {
	plain, ok := PlainOperand(k, v, other, t)
	if !ok {
		return fmt.Errorf("it is not loaded as it lies in memory")
	}
	inner, outer := k.Fold, k.Parallel[other]
	switch {
	case !plain.Along:
		inner, outer = outer, inner
	case plain.Run > 0 && (step < 1 || plain.Run%step != 0):
		return fmt.Errorf("steps of %d do not divide its runs of %d", step, plain.Run)
	case plain.Run > 0:
		inner = ir.D(step)
	}
	if !rowsApart(plain.Pitch, inner, outer) {
		return fmt.Errorf("its lines repeat or overlap")
	}
	if n := tensorAlignment / t.BlockBytes(); !plain.Base.RunAligned(k.FoldAxis(), n) {
		return fmt.Errorf("it does not begin at a multiple of %d bytes in every batch", tensorAlignment)
	}
	return nil
}

// rowsApart reports whether lines do not overlap, as tensor strides require. There are `outer` lines of `inner`
// elements each, and they begin pitch elements apart. A single line cannot overlap.
func rowsApart(pitch kernel.Index, inner, outer ir.Dim) bool {
	return outer.Is(1) || pitch.Minus(kernel.DimIndex(inner)).NonNegative()
}

// TensorStore reports whether a store can write its results a tile at a time: row-major, to a write-only buffer, with
// values that matrices can hold. It returns the index of row 0, column 0, and the distance between rows.
func TensorStore(k *kernel.Kernel, s kernel.Store) (base, pitch kernel.Index, ok bool) {
	b := k.Bindings[s.Bind]
	if b.Read || k.Guard != nil || !matrixValue(k, s) {
		return base, pitch, false
	}
	r := len(k.Parallel)
	across, okC := s.Index.Stride(r - 1)
	pitch, okR := s.Index.Stride(r - 2)
	rowMajor := okR && okC && (across.Equal(kernel.Const(1)) || k.Parallel[r-1].Is(1))
	constant := !pitch.Uses(r-1) && !pitch.Uses(r-2) // the distance between rows is the same everywhere
	if !rowMajor || !constant || !rowsApart(pitch, k.Parallel[r-1], k.Parallel[r-2]) {
		return base, pitch, false
	}
	base = s.Index.DropAxis(r - 2).DropAxis(r - 1)
	n := int64(tensorAlignment / b.DType.BlockBytes())
	return base, pitch, base.Multiple(n) == n
}

// matrixValue reports whether the value of a store can be computed on whole matrices. That holds for float results of
// float matmuls. For int8 matmuls it holds if the accumulators are converted to float first, or are stored unmodified.
func matrixValue(k *kernel.Kernel, s kernel.Store) bool {
	t := k.Bindings[s.Bind].DType
	if IntegerTile(k, s) {
		return true
	}
	return (t == ir.F32 || t == ir.F16 || t == ir.BF16) && floatSums(k, s.Value)
}

// IntegerTile reports whether a store writes unmodified integer accumulators.
func IntegerTile(k *kernel.Kernel, s kernel.Store) bool {
	return s.Value.Kind == kernel.ExprAcc && s.Value.DType == ir.I32 && k.Bindings[s.Bind].DType == ir.I32
}

// maxUnsigned is the largest product of two uint8 values.
const maxUnsigned = 255 * 255

// floatSums reports whether a value uses accumulators only as floats. That holds for every float matmul. In an integer
// matmul the value must cast every accumulator to f32. A uint8 matmul has unsigned accumulators on cooperative matrices
// but signed ones in the reference, so the largest sum must be below 2^31: then both convert to the same float.
func floatSums(k *kernel.Kernel, v *kernel.Expr) bool {
	t, bytes := ByteMatMuls(k)
	if !bytes {
		return true
	}
	if t == ir.U8 && k.Fold.Max() > math.MaxInt32/maxUnsigned {
		return false
	}
	float := v.Kind != kernel.ExprAcc // an accumulator by itself is stored as an integer
	kernel.Walk([]*kernel.Expr{v}, func(e *kernel.Expr) {
		for _, a := range e.Args {
			float = float && (a.Kind != kernel.ExprAcc || IsFloatSum(e))
		}
		float = float && !slices.ContainsFunc(e.Index.Values(), (*kernel.Expr).UsesAnyAcc)
	})
	return float
}

// IsFloatSum reports whether a value is an i32 accumulator cast to f32.
func IsFloatSum(v *kernel.Expr) bool {
	return v.Kind == kernel.ExprApply && v.Op == ir.OpCast && v.DType == ir.F32 && v.Args[0].Kind == kernel.ExprAcc &&
		v.Args[0].DType == ir.I32
}
