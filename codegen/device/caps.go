package device

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// DeviceType says how a device is attached, which affects the choice of device and of transfers.
type DeviceType string

// The device types of Vulkan.
const (
	DeviceOther      DeviceType = "other"
	DeviceIntegrated DeviceType = "integrated"
	DeviceDiscrete   DeviceType = "discrete"
	DeviceVirtual    DeviceType = "virtual"
	DeviceCPU        DeviceType = "cpu"
)

// SubgroupOps is the set of subgroup operations that compute shaders may use. It has the bit values of
// VkSubgroupFeatureFlagBits.
type SubgroupOps uint32

// The subgroup operations.
const (
	SubgroupBasic SubgroupOps = 1 << iota
	SubgroupVote
	SubgroupArithmetic
	SubgroupBallot
	SubgroupShuffle
	SubgroupShuffleRelative
	SubgroupClustered
	SubgroupQuad
	SubgroupPartitionedNV
	SubgroupRotate
	SubgroupRotateClustered
)

// Has reports whether all of want are supported.
func (s SubgroupOps) Has(want SubgroupOps) bool { return s&want == want }

// Component is the element type of a cooperative matrix: the name of a dtype (f16 bf16 f32 f64 f8e4m3 f8e5m2 i8 i16 i32
// i64 u8 u16 u32 u64), or "component-N" if type N of Vulkan is no dtype.
type Component string

// Scope is the set of invocations that share a cooperative matrix.
type Scope string

// The scopes that devices report.
const (
	ScopeSubgroup  Scope = "subgroup"
	ScopeWorkgroup Scope = "workgroup"
)

// MatrixShape is a supported multiplication of cooperative matrices: R[M,N] = A[M,K] * B[K,N] + C[M,N]. The sizes in
// [Matrix2].Dims stand for all of their multiples up to [Matrix2].MaxDimension.
type MatrixShape struct {
	M     uint32    `json:"m"`
	N     uint32    `json:"n"`
	K     uint32    `json:"k"`
	A     Component `json:"a"`
	B     Component `json:"b"`
	C     Component `json:"c"`
	R     Component `json:"r"`
	Scope Scope     `json:"scope"`
	// Saturating says that the accumulation of integers saturates.
	Saturating bool `json:"saturating,omitempty"`
	// Invocations is the workgroup size that the shape needs; 0 at subgroup scope.
	Invocations uint32 `json:"invocations,omitempty"`
}

// Matrix2 describes a device's VK_NV_cooperative_matrix2: its features, limits, and flexible shapes.
type Matrix2 struct {
	WorkgroupScope     bool `json:"workgroupScope"`
	FlexibleDimensions bool `json:"flexibleDimensions"`
	Reductions         bool `json:"reductions"`
	Conversions        bool `json:"conversions"`
	PerElement         bool `json:"perElement"`
	TensorAddressing   bool `json:"tensorAddressing"`
	BlockLoads         bool `json:"blockLoads"`

	// MaxWorkgroup is the largest workgroup that may use workgroup scope, in invocations.
	MaxWorkgroup uint32 `json:"maxWorkgroup"`
	// MaxDimension bounds M, N and K of a flexible shape.
	MaxDimension uint32 `json:"maxDimension"`
	// ReservedShared is the shared memory in bytes that the driver reserves at workgroup scope.
	ReservedShared uint32        `json:"reservedShared"`
	Dims           []MatrixShape `json:"dims,omitempty"`
}

// Features are the optional features of a device that generated code or the runtime may use.
type Features struct {
	Float16        bool `json:"float16"` // arithmetic, not only storage
	Float64        bool `json:"float64"`
	Int8           bool `json:"int8"` // arithmetic, not only storage
	Int16          bool `json:"int16"`
	Int64          bool `json:"int64"`
	Storage8       bool `json:"storage8"`  // 8-bit elements in storage buffers
	Storage16      bool `json:"storage16"` // 16-bit elements in storage buffers
	PushConstant8  bool `json:"pushConstant8"`
	PushConstant16 bool `json:"pushConstant16"`

	BufferDeviceAddress    bool `json:"bufferDeviceAddress"`
	ScalarBlockLayout      bool `json:"scalarBlockLayout"`
	MemoryModel            bool `json:"memoryModel"`
	MemoryModelDeviceScope bool `json:"memoryModelDeviceScope"`
	IntegerDotProduct      bool `json:"integerDotProduct"`
	AtomicFloat32Add       bool `json:"atomicFloat32Add"`       // in storage buffers
	SharedAtomicFloat32Add bool `json:"sharedAtomicFloat32Add"` // in shared memory

	SubgroupSizeControl   bool `json:"subgroupSizeControl"`   // a kernel may request its subgroup size
	FullSubgroups         bool `json:"fullSubgroups"`         // a kernel may request that no subgroup is partial
	SubgroupExtendedTypes bool `json:"subgroupExtendedTypes"` // 8-, 16- and 64-bit subgroup operands
	MaximalReconvergence  bool `json:"maximalReconvergence"`

	WorkgroupExplicitLayout bool `json:"workgroupExplicitLayout"` // shared memory may be aliased
	ZeroInitWorkgroup       bool `json:"zeroInitWorkgroup"`

	BFloat16           bool `json:"bfloat16"`
	BFloat16Matrix     bool `json:"bfloat16Matrix"`
	Float8             bool `json:"float8"`
	Float8Matrix       bool `json:"float8Matrix"`
	CooperativeMatrix  bool `json:"cooperativeMatrix"` // in compute shaders; its shapes are Caps.Matrices
	CooperativeMatrix2 bool `json:"cooperativeMatrix2"`

	// PreserveNaN16, 32 and 64 say that arithmetic preserves signed zeros, infinities and NaNs if a shader requests it
	// (SignedZeroInfNanPreserve). PreserveDenorm16 and 32 say the same about subnormals.
	PreserveNaN16    bool `json:"preserveNaN16"`
	PreserveNaN32    bool `json:"preserveNaN32"`
	PreserveNaN64    bool `json:"preserveNaN64"`
	PreserveDenorm16 bool `json:"preserveDenorm16"`
	PreserveDenorm32 bool `json:"preserveDenorm32"`

	// The features below concern the runtime, not generated code.

	Sync2                        bool `json:"sync2"`
	Timeline                     bool `json:"timeline"`
	Maintenance4                 bool `json:"maintenance4"` // LocalSizeId, as --target-env vulkan1.3 emits
	PushDescriptor               bool `json:"pushDescriptor"`
	PipelineExecutableProperties bool `json:"pipelineExecutableProperties"`
	MemoryBudget                 bool `json:"memoryBudget"`
	CalibratedTimestamps         bool `json:"calibratedTimestamps"`
	ExternalMemoryHost           bool `json:"externalMemoryHost"`
	PortabilitySubset            bool `json:"portabilitySubset"` // Vulkan runs on another API, as with MoltenVK
}

// APIVersion is a Vulkan version, packed as Vulkan packs it. It marshals to "major.minor.patch".
type APIVersion uint32

// Version packs a Vulkan version.
func Version(major, minor, patch uint32) APIVersion {
	return APIVersion(major<<22 | minor<<12 | patch)
}

// AtLeast reports whether v is major.minor or newer.
func (v APIVersion) AtLeast(major, minor uint32) bool { return v >= Version(major, minor, 0) }

// SPIRV returns the last minor version of SPIR-V 1.x that a device of this version supports (Vulkan, appendix "Vulkan
// Environment for SPIR-V").
func (v APIVersion) SPIRV() int {
	switch {
	case v.AtLeast(1, 3):
		return 6
	case v.AtLeast(1, 2):
		return 5
	case v.AtLeast(1, 1):
		return 3
	}
	return 0
}

// String is "major.minor.patch".
func (v APIVersion) String() string {
	// Three more bits at the top are the variant of the API.
	return fmt.Sprintf("%d.%d.%d", v>>22&0x7f, v>>12&0x3ff, v&0xfff)
}

// MarshalText writes "major.minor.patch".
func (v APIVersion) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads "major.minor" or "major.minor.patch".
func (v *APIVersion) UnmarshalText(text []byte) error {
	var part [3]uint32
	limit := [3]uint64{0x7f, 0x3ff, 0xfff}
	fields := strings.Split(string(text), ".")
	if len(fields) != 2 && len(fields) != 3 {
		return fmt.Errorf("device: Vulkan version %q: want major.minor.patch", text)
	}
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 32)
		if err != nil || n > limit[i] {
			return fmt.Errorf("device: Vulkan version %q: %q is not a number from 0 to %d", text, field, limit[i])
		}
		part[i] = uint32(n)
	}
	*v = Version(part[0], part[1], part[2])
	return nil
}

// Caps describes a device for code generation. It comes from a probe of a live device or from a profile file. It is
// plain data, and marshals to JSON and back without loss. Sizes are in bytes. A zero means that the device does not
// have something, or that it is unknown if the field says so.
type Caps struct {
	Name     string     `json:"name"`
	VendorID uint32     `json:"vendorID"`
	DeviceID uint32     `json:"deviceID"`
	Type     DeviceType `json:"type"`

	DriverID      uint32     `json:"driverID"` // VkDriverId
	DriverName    string     `json:"driverName"`
	DriverInfo    string     `json:"driverInfo"`    // the driver's version as its vendor formats it
	DriverVersion uint32     `json:"driverVersion"` // packed as the vendor defines; equal means the same driver
	API           APIVersion `json:"api"`

	// SubgroupSize is the default size. With Features.SubgroupSizeControl and RequiredSubgroupSize a kernel may request
	// any power of two from MinSubgroupSize to MaxSubgroupSize.
	SubgroupSize         uint32      `json:"subgroupSize"`
	MinSubgroupSize      uint32      `json:"minSubgroupSize"`
	MaxSubgroupSize      uint32      `json:"maxSubgroupSize"`
	RequiredSubgroupSize bool        `json:"requiredSubgroupSize"`
	SubgroupOps          SubgroupOps `json:"subgroupOps"`

	MaxSharedMemory   uint32    `json:"maxSharedMemory"`   // per workgroup
	MaxInvocations    uint32    `json:"maxInvocations"`    // per workgroup
	MaxWorkgroupSize  [3]uint32 `json:"maxWorkgroupSize"`  // per dimension
	MaxWorkgroupCount [3]uint32 `json:"maxWorkgroupCount"` // per dimension of a dispatch
	MaxPushConstants  uint32    `json:"maxPushConstants"`

	MaxStorageBuffers uint32 `json:"maxStorageBuffers"` // per kernel
	MaxStorageRange   uint64 `json:"maxStorageRange"`   // of one binding
	// MaxPosition is the largest element position that kernels compute in 32 bits; they compute larger positions in 64
	// bits. 0 means 2^32-1. Tests set a smaller value to test 64-bit positions with small tensors.
	MaxPosition      uint32 `json:"maxPosition,omitempty"`
	StorageAlignment uint64 `json:"storageAlignment"` // of a binding's offset
	MaxAllocation    uint64 `json:"maxAllocation"`    // of a single allocation
	MaxBuffer        uint64 `json:"maxBuffer"`
	// HostPointerAlignment is the alignment for importing host memory; 0 without Features.ExternalMemoryHost.
	HostPointerAlignment uint64 `json:"hostPointerAlignment,omitempty"`

	// TimestampPeriod is the number of nanoseconds per tick. TimestampBits is the number of valid bits of a timestamp,
	// or 0 if the compute queue has no timestamps.
	TimestampPeriod float32 `json:"timestampPeriod"`
	TimestampBits   uint32  `json:"timestampBits"`

	// Cores is the number of streaming multiprocessors or compute units. SubgroupsPerCore is the maximum number of
	// resident subgroups on one of them. 0 means unknown.
	Cores            uint32 `json:"cores,omitempty"`
	SubgroupsPerCore uint32 `json:"subgroupsPerCore,omitempty"`

	// Machine has the measured rates of the device, from vkc tune or a profile. It is zero if they were not measured.
	Machine Machine `json:"machine,omitzero"`

	// UnifiedMemory says that host and device share their memory, so that weights need no staging copy.
	UnifiedMemory bool `json:"unifiedMemory"`
	// DeviceMemory is the size of the largest device-local heap.
	DeviceMemory uint64 `json:"deviceMemory"`

	Features Features      `json:"features"`
	Matrices []MatrixShape `json:"matrices,omitempty"` // VK_KHR_cooperative_matrix
	Matrix2  *Matrix2      `json:"matrix2,omitempty"`  // nil without Features.CooperativeMatrix2

	// The UUIDs identify the device, its driver and the format of its pipeline cache. They are in hex.
	DeviceUUID        string `json:"deviceUUID,omitempty"`
	DriverUUID        string `json:"driverUUID,omitempty"`
	PipelineCacheUUID string `json:"pipelineCacheUUID,omitempty"`
}

// Position32 is the largest position of an element that kernels compute in 32 bits.
func (c Caps) Position32() int64 {
	if c.MaxPosition == 0 {
		return math.MaxUint32
	}
	return int64(c.MaxPosition)
}

// fingerprintVersion must change when the meaning of a field that Fingerprint covers changes.
const fingerprintVersion = "vkc caps 1\n"

// Fingerprint is the SHA-256, in hex, of everything on which generated code may depend. Code generation must not use
// what it does not cover: names, the driver's version and description, the patch level of the API, the UUIDs, the size
// of device memory, and the order of matrix shapes. A cache of a driver's output (VkPipelineCache) must have the UUID
// and the driver's version in its key too.
func (c Caps) Fingerprint() string {
	c.Name, c.DriverName, c.DriverInfo, c.DriverVersion = "", "", "", 0
	c.DeviceUUID, c.DriverUUID, c.PipelineCacheUUID = "", "", ""
	c.DeviceMemory, c.HostPointerAlignment = 0, 0
	c.API &^= 0xfff // the patch level
	c.Matrices = sortedShapes(c.Matrices)
	if c.Matrix2 != nil {
		m := *c.Matrix2
		m.Dims = sortedShapes(m.Dims)
		c.Matrix2 = &m
	}
	if c.TimestampPeriod != c.TimestampPeriod { // NaN, for which Marshal would fail
		c.TimestampPeriod = 0
	}
	text, err := json.Marshal(c)
	if err != nil {
		text = fmt.Appendf(nil, "%+v", c)
	}
	sum := sha256.Sum256(append([]byte(fingerprintVersion), text...))
	return hex.EncodeToString(sum[:])
}

// sortedShapes returns the shapes in an order that does not depend on the driver's.
func sortedShapes(shapes []MatrixShape) []MatrixShape {
	shapes = slices.Clone(shapes)
	slices.SortFunc(shapes, func(a, b MatrixShape) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	return shapes
}

// HasMatrix reports whether the device supports exactly m by n by k matmuls on cooperative matrices at subgroup scope,
// with these component types of operands and accumulators.
func (c Caps) HasMatrix(m, n, k int, operands, sums Component) bool {
	want := MatrixShape{M: uint32(m), N: uint32(n), K: uint32(k), A: operands, B: operands, C: sums, R: sums,
		Scope: ScopeSubgroup}
	return c.Features.CooperativeMatrix && slices.Contains(c.Matrices, want)
}

// CanRelyOn reports whether a kernel can rely on subgroups of n invocations: n is the device's only subgroup size, or
// the kernel can request this size and full subgroups.
func (c Caps) CanRelyOn(n int) bool {
	size := uint32(n)
	if c.MinSubgroupSize == size && c.MaxSubgroupSize == size {
		return true
	}
	offered := n&(n-1) == 0 && size >= c.MinSubgroupSize && size <= c.MaxSubgroupSize // all powers of two between
	return offered && c.Features.SubgroupSizeControl && c.RequiredSubgroupSize && c.Features.FullSubgroups
}

// Offers reports whether the device supports the tile of a schedule at workgroup scope, with these component types of
// operands and accumulators. A schedule may split the tile's accumulator into several matrices (CoopMat2.Pieces). Each
// must be a multiple of a shape that the device has for the schedule's workgroup size.
func (m *Matrix2) Offers(s kernel.CoopMat2, operands, sums Component) bool {
	down, across := s.Pieces()
	return slices.ContainsFunc(m.Dims, func(d MatrixShape) bool {
		return d.Scope == ScopeWorkgroup && int(d.Invocations) == s.Workgroup && d.A == operands && d.B == operands &&
			d.C == sums && d.R == sums &&
			s.TileM%(down*int(d.M)) == 0 && s.TileN%(across*int(d.N)) == 0 && s.TileK%int(d.K) == 0
	})
}

// maxBindings limits the number of buffers of a kernel even if the device allows more: fusing one more tensor then
// saves little, and registers run out.
const maxBindings = 32

// Bindings is the maximum number of buffers that fusion may bind to one kernel.
func Bindings(caps Caps) int { return int(min(caps.MaxStorageBuffers, maxBindings)) }

// subgroupFeatures has the subgroup operations by their names in [Caps.Has].
var subgroupFeatures = map[string]SubgroupOps{
	"subgroup_basic":      SubgroupBasic,
	"subgroup_arithmetic": SubgroupArithmetic,
	"subgroup_shuffle":    SubgroupShuffle,
	"subgroup_vote":       SubgroupVote,
}

// Has reports whether the device has the named feature. A name is the JSON name of a field of [Features], such as
// "storage16" or "float64", or a key of subgroupFeatures, such as "subgroup_shuffle". It returns false for unknown
// names.
func (c Caps) Has(feature string) bool {
	if ops, ok := subgroupFeatures[feature]; ok {
		return c.SubgroupOps.Has(ops)
	}
	v := reflect.ValueOf(c.Features)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") == feature {
			return v.Field(i).Bool()
		}
	}
	return false
}

// StorageFeature returns the feature that a device needs so that kernels can access a buffer of dtype t element by
// element, or "" if every device can.
func StorageFeature(t ir.DType) string {
	switch {
	case t.IsPacked(): // read and written in words
		return ""
	case t == ir.F64:
		return "float64"
	case t == ir.I64:
		return "int64"
	case t.IsBlock() && t.BlockBytes()%2 == 0:
		return "storage16" // blocks are arrays of 16-bit words
	case t.IsBlock() || t.BlockBytes() == 1:
		return "storage8"
	case t.BlockBytes() == 2:
		return "storage16"
	}
	return ""
}

// InWords reports whether kernels access buffers of dtype t as 32-bit words: because elements are packed, or because
// the device lacks 8- or 16-bit storage. Every device supports 32-bit words.
func (c Caps) InWords(t ir.DType) bool {
	switch feature := StorageFeature(t); {
	case t.IsPacked():
		return true
	case feature == "storage8":
		return !c.Features.Storage8
	case feature == "storage16":
		return !c.Features.Storage16
	}
	return false
}
