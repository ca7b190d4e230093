package schedule

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// OctetElems is the number of adjacent 16-bit elements (an octet, 16 bytes) that kernels on cooperative matrices move
// at once.
const OctetElems = 8

// unitBytes is the size of a unit: the bytes of an operand that kernels on cooperative matrices move at once.
const unitBytes = 16

// UnitElems is the number of adjacent elements of a unit, which is one element of a shared array: 16 bytes, or fewer if
// fragments are smaller.
func UnitElems(k *kernel.Kernel, s kernel.Schedule) int {
	t, bytes := ByteMatMuls(k)
	if !bytes {
		return OctetElems
	}
	// A unit must divide each extent of a fragment.
	if c, ok := s.(kernel.CoopMat); ok && (c.FragM%unitBytes != 0 || c.FragN%unitBytes != 0 || c.FragK%unitBytes != 0) {
		return OctetElems
	}
	return unitElems(t)
}

// unitElems is the number of elements of a dtype in 16 bytes.
func unitElems(t ir.DType) int { return unitBytes / t.BlockBytes() }

// UnitsOf16 is the number of units in 16 bytes.
func UnitsOf16(k *kernel.Kernel, s kernel.Schedule) int {
	t, _ := MatrixDType(k)
	return unitElems(t) / UnitElems(k, s)
}

// MatrixDType returns the dtype that the operands of all matmuls of a kernel may have on cooperative matrices: F16,
// BF16, I8 or U8. It returns false if there is no such dtype.
func MatrixDType(k *kernel.Kernel) (ir.DType, bool) {
	if len(k.MatMuls) == 0 {
		return ir.Invalid, false
	}
	t := k.MatMuls[0].Operands
	if slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool { return p.Operands != t }) {
		return ir.Invalid, false
	}
	return t, t == ir.F16 || t == ir.BF16 || t == ir.I8 || t == ir.U8
}

// ByteMatMuls returns the operand dtype of an int8 or uint8 matmul, I8 or U8, and false for other matmuls.
func ByteMatMuls(k *kernel.Kernel) (ir.DType, bool) {
	if len(k.MatMuls) == 0 || k.MatMuls[0].Sums() != ir.I32 {
		return ir.Invalid, false
	}
	return k.MatMuls[0].Operands, true
}

// SumsDType returns the accumulator dtype of a kernel on cooperative matrices: F32, or F16 if all matmuls allow it. For
// I8 operands it is I32, and for U8 operands U32.
func SumsDType(k *kernel.Kernel) ir.DType {
	fullSums := func(p kernel.MatMul) bool { return !p.HalfSums }
	switch t, _ := MatrixDType(k); {
	case t == ir.I8:
		return ir.I32
	case t == ir.U8:
		return ir.U32
	case t != ir.F16 || slices.ContainsFunc(k.MatMuls, fullSums):
		return ir.F32
	}
	return ir.F16
}

// laneSums is the number of 32-bit registers that an invocation needs for the accumulators of all matmuls.
func laneSums(k *kernel.Kernel, s kernel.MatrixTile) int {
	return s.TileM * s.TileN * len(k.MatMuls) * SumsDType(k).BlockBytes() / 4 / s.Workgroup
}

// Unrounded returns v without casts that rounding to t makes redundant: casts to t itself, and casts from narrower
// floats to f32.
func Unrounded(v *kernel.Expr, t ir.DType) *kernel.Expr {
	for v.Kind == kernel.ExprApply && v.Op == ir.OpCast && v.DType.IsFloat() && v.Args[0].DType.IsFloat() {
		from := v.Args[0].DType
		if v.DType != t && (v.DType != ir.F32 || from == ir.F64) {
			break
		}
		v = v.Args[0]
	}
	return v
}

// Plain is a matmul operand that cooperative matrices can load directly from memory.
type Plain struct {
	Load  *kernel.Expr
	Along bool // its inner axis, with stride 1, is the contraction axis
	// Pitch is the stride of its outer axis. Base is the index of the element at coordinate 0 of both axes.
	Pitch, Base kernel.Index
	// Run, if not 0, says that it is contiguous only in runs along the contraction axis, which begin at multiples of
	// Run. Base is then the start of a run.
	Run int
}

// maxRun is the longest run of neighbouring elements that PlainOperand looks for. It is longer than the steps of all
// tiles along the contraction axis.
const maxRun = 256

// PlainOperand matches a matmul's operand that is a plain load from a buffer of dtype t. The load must be linear in the
// contraction axis, or in runs along it, and in the operand's other axis. One of the two must have stride 1.
func PlainOperand(k *kernel.Kernel, v *kernel.Expr, other int, t ir.DType) (Plain, bool) {
	v = Unrounded(v, t)
	if v.Kind != kernel.ExprLoad || k.Bindings[v.Bind].DType != t || k.Bindings[v.Bind].Write {
		return Plain{}, false
	}
	fold := k.FoldAxis()
	along, okF := v.Index.Stride(fold)
	across, okO := v.Index.Stride(other)
	if okO && !okF {
		return operandInRuns(k, v, other)
	}
	if !okF || !okO {
		return Plain{}, false
	}
	p := Plain{Load: v, Base: v.Index.DropAxis(fold).DropAxis(other)}
	switch one := kernel.Const(1); {
	case along.Equal(one):
		p.Along, p.Pitch = true, across
	case across.Equal(one):
		p.Pitch = along
	default:
		return Plain{}, false
	}
	// The strides must not depend on the coordinates.
	return p, !p.Pitch.Uses(fold) && !p.Pitch.Uses(other)
}

// operandInRuns matches a load that is linear in its other axis, and in runs along the contraction axis.
func operandInRuns(k *kernel.Kernel, v *kernel.Expr, other int) (Plain, bool) {
	p := Plain{Load: v, Along: true, Base: v.Index.DropAxis(other)}
	p.Pitch, _ = v.Index.Stride(other)
	if v.Index.HasClamp() || p.Pitch.Uses(k.FoldAxis()) || p.Pitch.Uses(other) {
		return Plain{}, false
	}
	// The longest run wins. Runs of less than an octet are useless, because octets are loaded at once.
	for p.Run = maxRun; p.Run >= OctetElems; p.Run /= 2 {
		if n, ok := v.Index.RunStride(k.FoldAxis(), p.Run); ok && n == 1 && DivisibleBy(k.Fold, p.Run) {
			return p, true
		}
	}
	return Plain{}, false
}

// component returns a dtype as the component type of a matrix shape in Caps.
func component(t ir.DType) device.Component { return device.Component(t.String()) }

// subgroupMatrices lists the shapes of a device's cooperative matrices of subgroup scope with operands and sums of
// these dtypes.
func subgroupMatrices(caps device.Caps, operands, sums ir.DType) []device.MatrixShape {
	a, c := component(operands), component(sums)
	return slices.DeleteFunc(slices.Clone(caps.Matrices), func(m device.MatrixShape) bool {
		return m.Scope != device.ScopeSubgroup || m.A != a || m.B != a || m.C != c || m.R != c
	})
}

// checkMatrixUnits checks the requirements that both variants on cooperative matrices have.
func checkMatrixUnits(k *kernel.Kernel, s kernel.MatrixTile, caps device.Caps) error {
	t, ok := MatrixDType(k)
	switch {
	case !ok:
		return fmt.Errorf("matrix units take f16, bf16 or bytes, and the operands are not bytes and may not be rounded")
	case !caps.Features.CooperativeMatrix || !caps.Features.MemoryModel:
		return fmt.Errorf("the device has no cooperative matrices")
	case t == ir.F16 && !caps.Features.Float16:
		return fmt.Errorf("the device has no f16 arithmetic")
	case t == ir.BF16 && !caps.Features.BFloat16Matrix:
		return fmt.Errorf("the device's matrix units take no bf16")
	case t.IsInteger() && !caps.Features.Int8:
		return fmt.Errorf("the device has no 8-bit integers")
	case !t.IsInteger() && !caps.Features.Storage16:
		return fmt.Errorf("the device has no 16-bit storage")
	case s.TileM < 1 || s.TileN < 1 || s.TileK < 1:
		return fmt.Errorf("tiles must be at least 1")
	case s.Band > 1 && !bandFits(k, s, caps):
		return fmt.Errorf("bands of %d rows of tiles, but the result has fewer of them, or one column, or they are "+
			"not counted along two dimensions", s.Band)
	}
	return nil
}

// bandFits reports whether the tiles of a result can be traversed in bands (see kernel.MatrixTile); the last band may
// be partial.
func bandFits(k *kernel.Kernel, s kernel.MatrixTile, caps device.Caps) bool {
	r := len(k.Parallel)
	rows, cols := k.Parallel[r-2], k.Parallel[r-1]
	static := rows.IsStatic() && cols.IsStatic()
	several := rows.Add > int64(s.TileM)*int64(s.Band-1) && cols.Add > int64(s.TileN) // a whole band, and two columns
	if !static || !several {
		return false
	}
	g, err := MatMulGrid(k, s.Tile, caps)
	return err == nil && len(g[0]) == 1 && len(g[1]) == 1
}

// maxLaneSums is the maximum number of an invocation's registers for the accumulators of all matmuls of a kernel. It
// leaves registers for the operands' fragments.
const maxLaneSums = 128

// checkCoopMat returns an error if a matmul cannot run on cooperative matrices of subgroup scope with a schedule.
func checkCoopMat(k *kernel.Kernel, s kernel.CoopMat, caps device.Caps) error {
	if err := checkMatrixUnits(k, s.MatrixTile, caps); err != nil {
		return err
	}
	t, _ := MatrixDType(k)
	c, sums, unit := component(t), component(SumsDType(k)), UnitElems(k, s)
	switch {
	case s.Subgroup < 1:
		return fmt.Errorf("fragments belong to subgroups, whose size must be relied on")
	case s.SubgroupsM < 1 || s.SubgroupsN < 1 || s.Workgroup != s.SubgroupsM*s.SubgroupsN*s.Subgroup:
		return fmt.Errorf("%dx%d subgroups of %d are not a workgroup of %d", s.SubgroupsM, s.SubgroupsN,
			s.Subgroup, s.Workgroup)
	case s.FragM < 1 || s.FragN < 1 || s.FragK < 1 || !caps.HasMatrix(s.FragM, s.FragN, s.FragK, c, sums):
		return fmt.Errorf("the device has no %s fragments of %dx%dx%d with %s sums", t, s.FragM, s.FragN, s.FragK, sums)
	case s.TileM%(s.SubgroupsM*s.FragM) != 0 || s.TileN%(s.SubgroupsN*s.FragN) != 0 || s.TileK%s.FragK != 0:
		return fmt.Errorf("the tile is not a whole number of fragments for each subgroup")
	case s.TileM%unit != 0 || s.TileN%unit != 0 || s.TileK%unit != 0 || s.FragM%unit != 0 || s.FragN%unit != 0 ||
		s.FragK%unit != 0:
		return fmt.Errorf("tiles and fragments must be multiples of %d, the neighbours that are staged together", unit)
	}
	if n := laneSums(k, s.MatrixTile); n > maxLaneSums {
		return fmt.Errorf("%d sums per invocation, more than %d spill", n, maxLaneSums)
	}
	return nil
}

// StagedPitch is the distance, in units, between lines of an operand's tile in shared memory. inner is the number of
// elements of a line, and unit the number of elements of a unit. The distance is odd, so that the lines of a fragment
// start in different banks.
func StagedPitch(inner, unit int) int { return inner/unit | 1 }

// StagedUnits is the size, in units, of one operand's tile in shared memory. The tile has tileK elements along the
// contraction axis and `extent` elements along the operand's other axis. If along is true, its lines lie along the
// contraction axis, and otherwise along the other one. A unit has `unit` elements.
func StagedUnits(along bool, extent, tileK, unit int) int {
	if along {
		return extent * StagedPitch(tileK, unit)
	}
	return tileK * StagedPitch(extent, unit)
}

// MatrixStages is the number of tiles of each operand in shared memory. With two, one is multiplied while the next is
// filled.
func MatrixStages(s kernel.Schedule) int {
	if s, ok := s.(kernel.CoopMat); ok && s.OneStage {
		return 1
	}
	return 2
}

// Staged reports whether a matmul's operand passes through shared memory before cooperative matrices load it. With
// fragments per subgroup every operand does. With a tile per workgroup, only operands that cannot be loaded directly
// do.
func Staged(k *kernel.Kernel, s kernel.Schedule, v *kernel.Expr, other int) bool {
	t, ok := MatrixDType(k)
	wide, perWorkgroup := s.(kernel.CoopMat2)
	return !perWorkgroup || !ok || checkTensorOperand(k, wide.TileK, v, other, t) != nil
}

// matrixStage is the size, in units, of all operand tiles in shared memory for one stage.
func matrixStage(k *kernel.Kernel, s kernel.Schedule) int {
	r, t := len(k.Parallel), tileOf(s)
	n, unit := 0, UnitElems(k, s)
	add := func(list []*kernel.Expr, axis, extent int) {
		for _, v := range list {
			if Staged(k, s, v, axis) {
				n += StagedUnits(FoldContiguous(k, v, axis), extent, t.TileK, unit)
			}
		}
	}
	as, bs := operandValues(k)
	add(as, r-2, t.TileM)
	add(bs, r-1, t.TileN)
	return n
}

// MatrixUnits returns the shared memory of a matmul on cooperative matrices, in units (see [UnitElems]). It holds one
// or two stages of tiles. The coopmat variant uses the same memory for its results after the last step, and then needs
// at least one fragment for each matmul of each subgroup.
func MatrixUnits(k *kernel.Kernel, s kernel.Schedule) int {
	stages := MatrixStages(s) * matrixStage(k, s)
	if s, ok := s.(kernel.CoopMat); ok {
		return max(stages, s.SubgroupsM*s.SubgroupsN*len(k.MatMuls)*CoopMatResult(s, 1)*UnitsOf16(k, s))
	}
	return stages
}

// CoopMatResult is the shared memory, in units of 16 bytes, that a subgroup needs to pass on the given number of
// adjacent fragments of 32-bit results.
func CoopMatResult(s kernel.CoopMat, fragments int) int {
	return s.FragM * CoopMatResultPitch(s, fragments)
}

// CoopMatResultPitch is the distance, in units of 16 bytes, between rows of adjacent fragments of 32-bit results in
// shared memory. It is odd to avoid bank conflicts.
func CoopMatResultPitch(s kernel.CoopMat, fragments int) int { return fragments*s.FragN/4 | 1 }
