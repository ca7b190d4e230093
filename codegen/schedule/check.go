package schedule

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// Limits on registers. With more registers compilers spill accumulators to memory, which costs more than a tile gains.
const (
	maxAccumulators = 128 // accumulators of one invocation of a matmul
	maxCached       = 64  // row elements that one invocation keeps
	maxBlockRun     = 256 // elements of a block that one invocation of a matvec reads at once
	maxCopies       = 32  // copies of a codebook entry; more would share banks
)

// MaxMatVecRows is the maximum number of rows of A per workgroup of the matvec variant: for each group of that many
// rows it reads all of B once. Up to mostMatVecRows rows, matvecs compete with tiles.
const MaxMatVecRows, mostMatVecRows = 8, 16

// New returns the schedule that a kernel runs with on a device. s may come from any source: a candidate, a tuning file,
// or a bundle made for another device. New drops options that the kernel does not allow, and fills in fields that
// follow from the kernel and the device. It returns an error if the kernel cannot run with s. Package glsl can generate
// code for any schedule that New accepts.
func New(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) (kernel.Schedule, error) {
	if gaps := Missing(k, caps); len(gaps) > 0 {
		return s, &MissingError{Kernel: k.Name, Device: caps.Name, Gaps: gaps}
	}
	s = normalize(k, s, caps)
	return s, check(k, s, caps)
}

// check returns the reason why a normalized schedule cannot run a kernel on a device, or nil.
func check(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	if err := refusal(k, s, caps); err != nil {
		return fmt.Errorf("schedule: schedule %q of kernel %s on %s: %w", s, k.Name, caps.Name, err)
	}
	return nil
}

// refusal is check with an error that does not describe the schedule. Describing thousands of them takes long.
func refusal(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	for _, check := range [...]func(*kernel.Kernel, kernel.Schedule, device.Caps) error{checkFamily, checkWorkgroup,
		checkSubgroup, checkStorage, checkVariant, checkShared} {
		if err := check(k, s, caps); err != nil {
			return err
		}
	}
	return nil
}

// checkStorage rejects schedules on cooperative matrices if they cannot load a buffer directly: the device lacks the
// storage feature for its dtype, or its positions need 64 bits and matrix loads take 32.
func checkStorage(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	if !onMatrixUnits(s) {
		return nil
	}
	for _, b := range k.Bindings {
		if caps.InWords(b.DType) {
			return fmt.Errorf("matrix units take %s %q as it lies in memory, and the device has no %s", b.DType, b.Name,
				device.StorageFeature(b.DType))
		}
		if isWide(caps, b) {
			return fmt.Errorf("matrix units take positions of 32 bits, and %q has %d elements", b.Name, b.Elems)
		}
	}
	return nil
}

// subgroupSums are the features for folding across a subgroup. The kernels use shuffles rather than subgroup
// arithmetic, because the driver would choose the order of the additions.
const subgroupSums = device.SubgroupBasic | device.SubgroupShuffle

// maxSubgroups is the maximum number of subgroups in a workgroup if the kernel requests a subgroup size. Vulkan's limit
// is maxComputeWorkgroupSubgroups, which Caps does not have. lavapipe has 32, and most GPUs allow 1024 invocations,
// which are 32 subgroups of 32.
const maxSubgroups = 32

// checkWorkgroup returns an error if a device does not allow the workgroup size or the vector width.
func checkWorkgroup(k *kernel.Kernel, schedule kernel.Schedule, caps device.Caps) error {
	s := schedule.Config()
	if s.Variant == kernel.VarCustom {
		return checkCustomWorkgroup(k.Custom, s, caps)
	}
	most := min(caps.MaxInvocations, caps.MaxWorkgroupSize[0])
	if s.Workgroup < 1 || uint64(s.Workgroup) > uint64(most) {
		return fmt.Errorf("workgroup of %d invocations, the device allows 1 to %d", s.Workgroup, most)
	}
	if s.Vec != 1 && s.Vec != 2 && s.Vec != 4 {
		return fmt.Errorf("vectors of %d elements, want 1, 2 or 4", s.Vec)
	}
	return nil
}

// checkSubgroup returns an error if the kernel cannot rely on the schedule's subgroup size.
func checkSubgroup(_ *kernel.Kernel, schedule kernel.Schedule, caps device.Caps) error {
	switch s := schedule.Config(); {
	case s.Subgroup == 0:
		return nil
	case !powerOfTwo(s.Subgroup):
		return fmt.Errorf("subgroup size %d is not a power of two", s.Subgroup)
	case !caps.SubgroupOps.Has(subgroupSums):
		return fmt.Errorf("the device has no subgroup shuffles")
	case !caps.CanRelyOn(s.Subgroup):
		return fmt.Errorf("subgroups of %d cannot be relied on: the device has %d to %d, and size control is %v",
			s.Subgroup, caps.MinSubgroupSize, caps.MaxSubgroupSize, caps.Features.SubgroupSizeControl &&
				caps.RequiredSubgroupSize)
	case s.Workgroup%s.Subgroup != 0:
		return fmt.Errorf("the workgroup is not a whole number of subgroups of %d", s.Subgroup)
	case s.Workgroup > s.Subgroup*maxSubgroups:
		return fmt.Errorf("%d subgroups of %d in a workgroup, %d are sure to be allowed", s.Workgroup/s.Subgroup,
			s.Subgroup, maxSubgroups)
	}
	return nil
}

// checkShared returns an error if a schedule needs more shared memory than the device has.
func checkShared(k *kernel.Kernel, s kernel.Schedule, caps device.Caps) error {
	if n := SharedBytes(k, s); uint64(n) > uint64(caps.MaxSharedMemory) {
		return fmt.Errorf("%d bytes of shared memory, the device has %d", n, caps.MaxSharedMemory)
	}
	return nil
}

// checkRow returns an error if a row kernel cannot run with a schedule: it caches too much, or its lanes cannot fold a
// row together.
func checkRow(k *kernel.Kernel, s kernel.Row) error {
	if s.Cache > maxCached {
		return fmt.Errorf("caching %d elements, want 0 to %d", s.Cache, maxCached)
	}
	if err := checkLanes(s.Launch, s.LanesPerRow); err != nil {
		return err
	}
	switch {
	case s.Variant == kernel.VarRowGroup && LanesAcross(k, s) && !powerOfTwo(s.Workgroup):
		return fmt.Errorf("workgroups of %d for rows that are interleaved in memory, want a power of two", s.Workgroup)
	case s.Subgroup > 0 && lanesApart(k, s):
		return fmt.Errorf("subgroups of %d hold no two lanes of a row", s.Subgroup)
	}
	return nil
}

// checkLanes checks the number of invocations that share a row (lanes). A serial variant has one. Otherwise it must
// be a power of two that fits the workgroup and the subgroups.
func checkLanes(s kernel.Launch, lanes int) error {
	switch {
	case s.Variant == kernel.VarRowSerial || s.Variant == kernel.VarScanSerial:
		if lanes > 1 {
			return fmt.Errorf("%d lanes per row, a serial variant has one", lanes)
		}
	case !powerOfTwo(lanes) || lanes < 2:
		return fmt.Errorf("%d lanes per row, want a power of two from 2", lanes)
	case s.Workgroup%lanes != 0:
		return fmt.Errorf("%d lanes per row do not divide the workgroup", lanes)
	case s.Subgroup > 0 && lanes%s.Subgroup != 0 && s.Subgroup%lanes != 0:
		return fmt.Errorf("%d lanes per row and subgroups of %d do not fit together", lanes, s.Subgroup)
	}
	return nil
}

// checkTile returns an error if a matmul cannot run with a tile in shared memory.
func checkTile(k *kernel.Kernel, s kernel.MatTile) error {
	switch {
	case s.TileM < 1 || s.TileN < 1 || s.ThreadM < 1 || s.ThreadN < 1:
		return fmt.Errorf("tiles and thread tiles must be at least 1")
	case s.TileK < 4 || s.TileK%4 != 0:
		return fmt.Errorf("a tile depth of %d is not a multiple of 4, the vectors of staged operands", s.TileK)
	case s.Stages < 0 || s.Stages > 2:
		return fmt.Errorf("%d stages of tiles, want 1 or 2", s.Stages)
	case s.TileM%s.ThreadM != 0 || s.TileN%s.ThreadN != 0:
		return fmt.Errorf("thread tiles do not divide the tile")
	case s.Workgroup != s.TileM/s.ThreadM*(s.TileN/s.ThreadN):
		return fmt.Errorf("the tile takes %d invocations", s.TileM/s.ThreadM*(s.TileN/s.ThreadN))
	}
	if err := checkRegisterTile(s.RegisterTile, s.TileM/s.ThreadM, s.TileN/s.ThreadN, s.ThreadM,
		s.ThreadN); err != nil {
		return err
	}
	if _, bytes := ByteMatMuls(k); s.Steps && bytes {
		return fmt.Errorf("bytes are kept row by row, four along the contraction in a word")
	}
	return checkAccumulators(k, s.ThreadM*s.ThreadN)
}

// checkRegisterTile checks how a grid of down x across invocations shares a tile. Each invocation has rows x cols sums.
func checkRegisterTile(s kernel.RegisterTile, down, across, rows, cols int) error {
	switch {
	case s.Paired && (down%2 != 0 || across%2 != 0):
		return fmt.Errorf("%dx%d invocations are not blocks of 2x2", down, across)
	case s.Steps && (rows%4 != 0 || cols%4 != 0):
		return fmt.Errorf("%dx%d sums per invocation are not vectors of four both ways", rows, cols)
	}
	return nil
}

// checkAccumulators returns an error if an invocation has too many sums. sums is their number for each matmul.
func checkAccumulators(k *kernel.Kernel, sums int) error {
	if n := sums * len(k.MatMuls); n > maxAccumulators {
		return fmt.Errorf("%d sums per invocation, more than %d spill", n, maxAccumulators)
	}
	return nil
}

// checkMatVec returns an error if a matmul cannot run with a matvec schedule.
func checkMatVec(k *kernel.Kernel, s kernel.MatVec, caps device.Caps) error {
	m := k.Parallel[len(k.Parallel)-2].Max()
	switch {
	case m > mostMatVecRows:
		return fmt.Errorf("%d rows, matvec takes at most %d", m, mostMatVecRows)
	case int64(s.TileM) < ceil.Div(m, matVecParts(m)) || s.TileM < 1 || s.TileM > MaxMatVecRows || s.ThreadM != s.TileM:
		return fmt.Errorf("every invocation must compute all %d rows, up to %d, or its part of them", m, MaxMatVecRows)
	case s.ThreadN < 1 || s.TileN < 1 || s.TileN%s.ThreadN != 0:
		return fmt.Errorf("thread columns do not divide the tile")
	case s.TileK < 0 || s.TileK%4 != 0 || s.TileK > maxBlockRun:
		return fmt.Errorf("%d elements of a block at once, want a multiple of 4 up to %d", s.TileK, maxBlockRun)
	case s.StageRows && (s.TileK < 16 || s.Prefetch.Runs() > 1 || blocksOf(k) == ir.Invalid || readsBytes(k)):
		return fmt.Errorf("rows pass through shared memory only where they are floats that meet blocks, 16 elements " +
			"at least, and runs are not prefetched")
	case s.Tables && tableBytes(k) == 0:
		return fmt.Errorf("there is no codebook to copy to shared memory")
	case s.LanesPerRow < 1 || !powerOfTwo(s.LanesPerRow) && s.Subgroup == 0:
		return fmt.Errorf("%d lanes per sum, want a power of two or a number of subgroups", s.LanesPerRow)
	case s.Coarsen < 0 || s.TileN%(s.ThreadN*max(s.Coarsen, 1)) != 0:
		return fmt.Errorf("%d passes do not divide the tile", s.Coarsen)
	case s.Workgroup != s.TileN/s.ThreadN/max(s.Coarsen, 1)*s.LanesPerRow:
		return fmt.Errorf("the tile takes %d invocations", s.TileN/s.ThreadN/max(s.Coarsen, 1)*s.LanesPerRow)
	case s.Subgroup > 0 && s.LanesPerRow%s.Subgroup != 0:
		return fmt.Errorf("%d lanes per sum are not a whole number of subgroups of %d", s.LanesPerRow, s.Subgroup)
	}
	if s.Copies != 0 {
		if err := checkLookup(k, s); err != nil {
			return err
		}
	}
	if err := cmp.Or(checkPrefetch(s.Prefetch), checkResident(k, s, caps)); err != nil {
		return err
	}
	return checkAccumulators(k, s.ThreadM*s.ThreadN)
}

// readsBytes reports whether some operand A of a matmul is int8 with scales.
func readsBytes(k *kernel.Kernel) bool {
	return slices.ContainsFunc(k.MatMuls, func(p kernel.MatMul) bool {
		_, _, ok := k.ByteRows(p.A)
		return ok
	})
}

func powerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }
