package schedule

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

func profile(t *testing.T, name string) device.Caps {
	t.Helper()
	caps, err := device.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

var one = ir.D(1)

// samples are kernels of every family in shapes that want different schedules.
var samples = map[string]*kernel.Kernel{
	"map 1M f32":         unaryMap(ir.F32, dims(1024, 1024)...),
	"map odd":            unaryMap(ir.F32, dims(33, 127)...),
	"map even":           unaryMap(ir.F16, dims(1025, 1026)...),
	"map by 3":           unaryMap(ir.F32, dims(1024, 3)...),
	"map tiny":           unaryMap(ir.F32, dims(16)...),
	"map T rows":         unaryMap(ir.F32, ir.Symbol("T", 4096), ir.D(512)),
	"map T columns":      unaryMap(ir.F32, ir.D(512), ir.Symbol("T", 4096)),
	"map scalar":         unaryMap(ir.F32),
	"transpose f16":      transposeMap(ir.F16, ir.D(8192), ir.D(8191)),
	"transpose f64":      transposeMap(ir.F64, ir.D(8192), ir.D(8192)),
	"transpose narrow":   transposeMap(ir.F32, ir.D(8192), ir.D(3)),
	"sum 4096x4096":      rowSum(ir.F32, ir.D(4096), ir.D(4096), false),
	"softmax 4096x4096":  rowSum(ir.F32, ir.D(4096), ir.D(4096), true),
	"softmax 1x32000":    rowSum(ir.F32, ir.D(1), ir.D(32000), true),
	"softmax 64Kx8":      rowSum(ir.F32, ir.D(65536), ir.D(8), true),
	"softmax 4Kx16":      rowSum(ir.F32, ir.D(4096), ir.D(16), true),
	"softmax 4096xT":     rowSum(ir.F32, ir.D(4096), ir.Symbol("T", 2048), true),
	"column sum":         columnSum(ir.D(4096), ir.D(65536)),
	"depthwise 5x5":      depthwise(3840, 12, 80, 5),
	"depthwise tall":     depthwise(16, 320, 320, 3),
	"depthwise prime":    depthwise(16, 59, 59, 3),
	"matmul 4096":        matMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F32, false),
	"matmul 4096 [n,k]":  matMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F32, true),
	"matmul 1500":        matMul(one, ir.D(1500), ir.D(768), ir.D(768), ir.F32, false),
	"matmul 1536":        matMul(one, ir.D(1536), ir.D(1536), ir.D(1536), ir.F32, false),
	"matmul 1024":        matMul(one, ir.D(1024), ir.D(1024), ir.D(1024), ir.F32, true),
	"matmul 8x256":       matMul(ir.D(8), ir.D(256), ir.D(512), ir.D(1024), ir.F32, true),
	"matmul gated":       gated(matMul(one, ir.D(512), ir.D(768), ir.D(256), ir.F32, true)),
	"matmul 512":         matMul(one, ir.D(512), ir.D(512), ir.D(512), ir.F32, false),
	"matmul small":       matMul(one, ir.D(20), ir.D(12), ir.D(7), ir.F32, false),
	"matmul 16 rows":     matMul(one, ir.D(16), ir.D(4096), ir.D(4096), ir.F16, true),
	"matmul T rows":      matMul(one, ir.Symbol("T", 2048), ir.D(4096), ir.D(4096), ir.F16, true),
	"matvec q4_0":        matMul(one, one, ir.D(4096), ir.D(14336), ir.Q4_0, true),
	"matvec f32":         matMul(one, one, ir.D(4096), ir.D(14336), ir.F32, true),
	"matvec q4_K":        matMul(one, one, ir.D(4096), ir.D(14336), ir.Q4_K, true),
	"matvec 8 rows q4_K": matMul(one, ir.D(8), ir.D(4096), ir.D(14336), ir.Q4_K, true),
	"matvec short q4_0":  matMul(one, one, ir.D(4096), ir.D(512), ir.Q4_0, true),
	"matvec short f16":   matMul(ir.D(8), one, ir.D(768), ir.D(2048), ir.F16, true),
	"matvec short q4_K":  matMul(ir.D(8), one, ir.D(768), ir.D(2048), ir.Q4_K, true),
	"matvec few columns": matMul(one, one, ir.D(64), ir.D(4096), ir.F32, true),
	"matvec [k,n]":       matMul(one, ir.D(4), ir.D(4096), ir.D(4096), ir.F32, false),
	"attention values":   matMul(ir.D(32), one, ir.D(128), ir.Symbol("T", 8192), ir.F32, false),
	"matvec 8 rows":      matMul(one, ir.D(8), ir.D(4096), ir.D(4096), ir.F32, true),
	"matmul f16 4096":    matrixMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.F16, false),
	"matmul bf16 4096":   matrixMul(one, ir.D(4096), ir.D(4096), ir.D(4096), ir.BF16, true),
	"matmul f16 11008":   matrixMul(one, ir.D(4096), ir.D(4096), ir.D(11008), ir.F16, true),
	"matmul f16 4160":    matrixMul(one, ir.D(4096), ir.D(4096), ir.D(4160), ir.F16, true),
	"matmul f16 512":     matrixMul(one, ir.D(512), ir.D(512), ir.D(512), ir.F16, false),
	"matmul f16 T":       matrixMul(one, ir.Symbol("T", 2048), ir.D(4096), ir.D(4096), ir.F16, true),
	"matmul f16 by q4_0": inF16(matMul(one, ir.D(512), ir.D(4096), ir.D(4096), ir.Q4_0, true)),
	"matmul 16x27":       matMul(one, ir.D(16), ir.D(102400), ir.D(27), ir.F32, true),
	"matmul 9 rows":      matMul(one, ir.D(9), ir.D(4096), ir.D(4096), ir.F32, true),
	"prefill 4096":       attention(ir.D(32), one, ir.D(4096), ir.D(4096), ir.D(128)),
	"prefill T":          attention(ir.D(8), ir.D(4), ir.Symbol("T", 2048), ir.Symbol("S", 8192), ir.D(64)),
	"wide heads":         attention(ir.D(8), one, ir.D(512), ir.D(512), ir.D(512)),
	"decode 4 heads":     attention(ir.D(8), ir.D(4), one, ir.Symbol("S", 8192), ir.D(128)),
}

// gated adds a second product of the same operands.
func gated(k *kernel.Kernel) *kernel.Kernel {
	k.MatMuls = append(k.MatMuls, k.MatMuls[0])
	return k
}

func TestSelect(t *testing.T) {
	cases := []struct{ profile, kernel, want string }{
		{"nvidia-h100", "map 1M f32", "map wg=256 vec=4"},
		{"nvidia-h100", "map odd", "map wg=64 vec=1"},
		{"nvidia-h100", "map even", "map wg=256 vec=2"},
		{"nvidia-h100", "map tiny", "map wg=64 vec=4"},
		{"nvidia-h100", "map T rows", "map wg=256 vec=4"},
		{"nvidia-h100", "map T columns", "map wg=256 vec=4"},
		{"nvidia-h100", "map by 3", "map wg=64 vec=4"},
		{"nvidia-h100", "map scalar", "map wg=64 vec=1"},
		{"nvidia-h100", "transpose f16", "map_tile wg=128 vec=4 tile=32x32"},
		{"nvidia-h100", "transpose f64", "map_tile wg=256 vec=4 tile=64x64"},
		{"nvidia-h100", "transpose narrow", "map wg="},
		{"generic", "transpose f16", "map_tile wg=128 vec=4 tile=32x32"},
		{"lavapipe", "transpose f16", "map wg="},
		{"generic", "map 1M f32", "map wg=128 vec=4"},
		{"arm-mali", "map 1M f32", "map wg=64 vec=4"},
		{"lavapipe", "map 1M f32", "map wg=64 vec=4"},

		{"nvidia-h100", "sum 4096x4096", "row_group wg=256 lanes=256 cache=0 vec=4 subgroup=32"},
		{"nvidia-h100", "softmax 4096x4096", "row_group wg=256 lanes=256 cache=16 vec=4 subgroup=32"},
		{"nvidia-h100", "softmax 1x32000", "row_group wg=1024 lanes=1024 cache=32 vec=4 subgroup=32"},
		{"nvidia-h100", "softmax 64Kx8", "row_serial wg=64"},
		{"nvidia-h100", "softmax 4Kx16", "row_serial wg=32"}, // few rows on many cores
		{"nvidia-h100", "softmax 4096xT", "row_group wg=256 lanes=128 cache=0 vec=1 subgroup=32"},
		{"nvidia-h100", "column sum", "row_serial wg=64"},
		{"nvidia-h100", "depthwise 5x5", "row_windows wg=128 windows=12"},
		{"nvidia-h100", "depthwise tall", "row_windows wg=128 windows="},
		{"nvidia-h100", "depthwise prime", "row_serial"}, // no block of rows divides it
		{"generic", "softmax 4096x4096", "row_group wg=128 lanes=128 cache=0"},
		{"amd-rdna3", "softmax 4096x4096", "row_group wg=256 lanes=256 cache=16 vec=4 subgroup=64"},

		{"nvidia-h100", "matmul 4096", "tile wg=128 tile=128x128x8 thread=8x16 stages=2 paired steps"},
		{"nvidia-h100", "matmul 4096 [n,k]", "tile wg=128 tile=128x128x8 thread=8x16 stages=2 paired steps"},
		{"nvidia-h100", "matmul 1536", "tile wg=128 tile=96x64x16 thread=12x4 stages=2 paired steps"},
		{"nvidia-h100", "matmul 1500", "tile wg=192 tile=96x96x16 thread=4x12 stages=2 paired steps"},
		{"nvidia-h100", "matmul 1024", "tile wg=128 tile=64x64x16 thread=8x4 stages=2 paired steps"},
		{"nvidia-h100", "matmul 8x256", "tile wg=128 tile=64x64x16 thread=8x4 stages=2 paired steps"},
		{"nvidia-h100", "matmul 512", "tile wg=256 tile=32x32x32 thread=2x2"},
		{"nvidia-h100", "matmul gated", "tile wg=128 tile=32x64x16 thread=4x4"}, // two sums each: larger ones spill
		{"nvidia-h100", "matmul small", "tile wg=256 tile=32x32x16 thread=2x2"},
		{"nvidia-h100", "matmul T rows", "tile wg=128 tile=128x128x8 thread=8x16 stages=2 paired steps"},
		{"nvidia-h100", "matmul 9 rows", "matvec wg=128 rows=5x8 vec=4 subgroup=32 lanes=64"},
		{"nvidia-h100", "matmul 16x27", "tile wg=128 tile=32x64x16"}, // lanes would add up longer than multiply
		{"nvidia-h100", "matmul f16 4096", "coopmat2 wg=128 tile=128x128x64"},
		{"nvidia-h100", "matmul f16 T", "coopmat2 wg=128 tile=128x128x64"},
		{"nvidia-h100", "matmul f16 11008", "coopmat2 wg=128 tile=128x128x64 band=8 unroll=4"},
		{"nvidia-h100", "matmul f16 4160", "coopmat2 wg=128 tile=128x128x64 band=8 unroll=13"},
		{"nvidia-h100", "matmul bf16 4096", "coopmat2 wg=128 tile=128x128x64 band=8"},
		{"nvidia-h100", "matmul f16 512", "coopmat2 wg=128 tile=32x32x128"},
		{"nvidia-h100", "matmul f16 by q4_0", "coopmat wg=256 tile=128x128x32"},
		{"amd-rdna3", "matmul f16 4096", "coopmat wg=512 tile=128x128x32 subgroups=2x4 fragment=16x16x16 subgroup=64"},
		{"amd-rdna3", "matmul bf16 4096", "tile wg=256"},
		{"intel-xe", "matmul f16 4096", "tile wg=256"},
		{"generic", "matmul 4096", "tile wg=128 tile=64x32x16 thread=4x4"},
		{"intel-xe", "matmul 4096", "tile wg=256 tile=64x64x16 thread=4x4"},
		{"arm-mali", "matmul 4096", "tile wg=64 tile=32x32x16 thread=4x4"},

		{"lavapipe", "matmul 512", "direct wg=16 tile=16x64x8 thread=16x4"},
		{"lavapipe", "matmul 9 rows", "direct wg=16 tile=9x64x8 thread=9x4"},
		{"lavapipe", "matmul T rows", "direct wg=16 tile=16x64x8 thread=16x4"},
		{"lavapipe", "matmul small", "direct wg=8 tile=10x32x8 thread=10x4"},
		{"lavapipe", "matvec q4_0", "matvec wg=32"},

		{"nvidia-h100", "matvec f32", "matvec wg=256 rows=1x1 vec=4 subgroup=32"},
		{"nvidia-h100", "matvec q4_0", "matvec wg=448 rows=1x16 vec=4 run=32 subnormals coarsen=2 subgroup=32"},
		{"nvidia-h100", "matvec q4_K", "matvec wg=224 rows=1x16 vec=4 run=64 subnormals coarsen=2 subgroup=32"},
		{"nvidia-h100", "matvec 8 rows q4_K", "matvec wg=128 rows=8x8 vec=4 run=16 subnormals subgroup=32"},
		{"nvidia-h100", "matvec short q4_0", "matvec wg=256 rows=1x16 vec=4 run=16 subnormals subgroup=32"},
		{"nvidia-h100", "matvec short f16", "matvec wg=128 rows=1x4 vec=4 subgroup=32"},
		{"nvidia-h100", "matvec short q4_K", "matvec wg=128 rows=1x16 vec=4 run=32 subnormals subgroup=32"},
		{"nvidia-h100", "matvec few columns", "matvec wg=256 rows=1x1 vec=4 subgroup=32"},
		{"nvidia-h100", "matvec [k,n]", "matvec wg=128 rows=4x16 vec=4"},
		{"nvidia-h100", "matvec 8 rows", "matvec wg=128 rows=8x32 vec=4 subgroup=32"},
		{"generic", "matvec q4_0", "matvec wg=64 rows=1x4 vec=4"},

		{"nvidia-h100", "prefill 4096", "flash_coopmat2 wg=256 tile=128x32 heads=1 fragment=16 stages=2 subgroup=32"},
		{"generic", "prefill 4096", "flash_tile wg=128 tile=16x32x16 thread=2x2 heads=1"},
		{"lavapipe", "prefill 4096", "flash_tile"},
		{"nvidia-h100", "decode 4 heads", "flash_vec wg=256 rows=4 heads=4 lanes=16 keys=4 splits=32 subgroup=32"},
		{"lavapipe", "decode 4 heads", "flash_vec wg=32 rows=4 heads=4 lanes=8 keys=4 splits=2 subgroup=8"},
	}
	for _, c := range cases {
		k := samples[c.kernel]
		if k == nil {
			t.Fatalf("no sample %q", c.kernel)
		}
		if c.profile == "generic" && c.kernel == "matvec q4_0" {
			k = matMul(one, one, ir.D(4096), ir.D(14336), ir.F16, true)
		}
		s, reason, err := Select(k, profile(t, c.profile))
		if err != nil {
			t.Errorf("%s on %s: %v", c.kernel, c.profile, err)
		} else if !strings.HasPrefix(s.String(), c.want) {
			t.Errorf("%s on %s: %s\n\twant %s\n\treason %s", c.kernel, c.profile, s, c.want, reason)
		}
	}
}

func TestSelectFitsEverywhere(t *testing.T) {
	for _, name := range device.Kinds() {
		caps := profile(t, name)
		for what, k := range samples {
			s, reason, err := Select(k, caps)
			if len(Missing(k, caps)) > 0 {
				var missing *MissingError
				if !errors.As(err, &missing) {
					t.Errorf("%s on %s: got %v, want a MissingError", what, name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s on %s: %v", what, name, err)
			} else if again, err := New(k, s, caps); err != nil || again != s {
				t.Errorf("%s on %s: selected %s, of which New makes %s: %v", what, name, s, again, err)
			} else if !strings.HasPrefix(reason, device.Class(caps)+": ") {
				t.Errorf("%s on %s: reason %q", what, name, reason)
			}
		}
	}
}

// randomKernel returns a kernel of any family in any shape.
func randomKernel(r *rand.Rand) *kernel.Kernel {
	extent := func(most int) ir.Dim {
		n := 1 + r.IntN(most)
		switch r.IntN(4) {
		case 0:
			return ir.Symbol("T", n)
		case 1:
			return ir.D(1 + r.IntN(9))
		}
		return ir.D(n * []int{1, 2, 4, 32}[r.IntN(4)])
	}
	types := []ir.DType{ir.F32, ir.F16, ir.BF16, ir.I32}
	switch r.IntN(12) {
	case 11:
		return recurrence(extent(20), extent(50), 1<<r.IntN(8), 1+r.IntN(300), extent(3000), r.IntN(2) == 0)
	case 10:
		return depthwise(1+r.IntN(300), 1+r.IntN(60), 1+r.IntN(60), 2+r.IntN(7))
	case 9:
		return quantizes(extent(5000), extent(200), []ir.DType{ir.Q8_0, ir.Q4_K, ir.Q6_K, ir.NVFP4}[r.IntN(4)])
	case 8:
		return groups(extent(40000), 1+r.IntN(3000), 1+r.IntN(200))
	case 4:
		cols := extent(2048)
		for cols.Max() > 2048 {
			cols = extent(2048)
		}
		if r.IntN(2) == 0 {
			return argsort(types[r.IntN(4)], extent(5000), ir.D(1024+r.IntN(7000)), ir.D(1+r.IntN(512)))
		}
		return argsort(types[r.IntN(4)], extent(5000), cols, cols)
	case 3:
		return runningSum(types[r.IntN(4)], extent(5000), extent(40000), r.IntN(2) == 0)
	case 5:
		return attention(extent(20), ir.D(1+r.IntN(8)), extent(3000), extent(9000),
			[]ir.Dim{ir.D(1 + r.IntN(512)), ir.D(16 * (1 + r.IntN(16)))}[r.IntN(2)])
	case 7:
		return transposeMap(types[r.IntN(4)], extent(3000), extent(3000))
	case 0:
		return unaryMap(types[r.IntN(4)], extent(300), extent(300), extent(300))
	case 1:
		return rowSum(types[r.IntN(4)], extent(5000), extent(40000), r.IntN(2) == 0)
	case 2:
		return columnSum(extent(5000), extent(40000))
	}
	if r.IntN(3) == 0 {
		return matMul(extent(3), extent(40), extent(3000), ir.D(256*(1+r.IntN(60))),
			[]ir.DType{ir.Q4_0, ir.Q4_K, ir.Q6_K, ir.Q5_0}[r.IntN(4)], true)
	}
	if r.IntN(2) == 0 {
		return matrixMul(extent(70), extent(3000), extent(3000), extent(3000), types[1+r.IntN(2)], r.IntN(2) == 0)
	}
	return matMul(extent(70), extent(3000), extent(3000), extent(3000), types[r.IntN(2)], r.IntN(2) == 0)
}

// randomCaps returns random caps that Vulkan allows.
func randomCaps(r *rand.Rand) device.Caps {
	vendors := []uint32{device.VendorAMD, device.VendorARM, device.VendorNVIDIA, device.VendorIntel, device.VendorQCOM,
		0x1234}
	sizes := []uint32{1, 4, 8, 16, 32, 64, 128}
	least := r.IntN(len(sizes))
	usual := least + r.IntN(len(sizes)-least)
	most := usual + r.IntN(len(sizes)-usual)
	invocations := uint32(128 << r.IntN(4))
	if r.IntN(3) == 0 {
		return randomMatrixCaps(r)
	}
	kind := []device.DeviceType{device.DeviceDiscrete, device.DeviceDiscrete, device.DeviceIntegrated,
		device.DeviceCPU}[r.IntN(4)]
	return device.Caps{
		Name: "random", VendorID: vendors[r.IntN(len(vendors))], Type: kind, Cores: uint32(r.IntN(200)),
		SubgroupSize: sizes[usual], MinSubgroupSize: sizes[least], MaxSubgroupSize: sizes[most],
		RequiredSubgroupSize: r.IntN(2) == 0, SubgroupOps: device.SubgroupOps(r.Uint32()) & 0x7ff,
		MaxSharedMemory: 16384 << r.IntN(3), MaxInvocations: invocations,
		MaxWorkgroupSize:  [3]uint32{invocations >> r.IntN(2), 128, 64},
		MaxWorkgroupCount: [3]uint32{65535 << (15 * r.IntN(2)), 65535, 65535},
		MaxStorageBuffers: 8, MaxStorageRange: 1 << 60,
		Features: device.Features{Storage16: true, SubgroupSizeControl: r.IntN(2) == 0, FullSubgroups: r.IntN(2) == 0},
	}
}

// The promise of Select: on any device that lacks no feature it finds a
// schedule, and that schedule passes Check.
func TestSelectProperty(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	chosen := map[kernel.Variant]int{}
	for range 3000 {
		k, caps := randomKernel(r), randomCaps(r)
		caps.Features.Int64 = true
		if r.IntN(4) == 0 {
			caps.MaxPosition = 1000 // beyond, positions have 64 bits
		}
		s, _, err := Select(k, caps)
		if err != nil {
			t.Fatalf("%v\n%s%+v", err, k, caps)
		}
		if _, err := New(k, s, caps); err != nil {
			t.Fatalf("selected what Check refuses: %v\n%s%+v", err, k, caps)
		}
		chosen[s.Config().Variant]++
	}
	for v := range families {
		if chosen[v] == 0 && v != kernel.VarCustom { // which runs as its op says, or not at all
			t.Errorf("variant %s was never chosen", v)
		}
	}
}
