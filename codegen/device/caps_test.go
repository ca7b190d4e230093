package device

import (
	"encoding/json"
	"reflect"
	"testing"
)

func sampleCaps() Caps {
	return Caps{
		Name: "Sample", VendorID: VendorNVIDIA, DeviceID: 7, Type: DeviceDiscrete,
		DriverID: 4, DriverName: "sample", DriverInfo: "1.2", DriverVersion: 12, API: Version(1, 4, 312),
		SubgroupSize: 32, MinSubgroupSize: 32, MaxSubgroupSize: 32, SubgroupOps: 0x7ff,
		MaxSharedMemory: 49152, MaxInvocations: 1024, MaxWorkgroupSize: [3]uint32{1024, 1024, 64},
		TimestampPeriod: 1, Features: Features{Float16: true, CooperativeMatrix: true, CooperativeMatrix2: true},
		Matrices: []MatrixShape{
			{M: 16, N: 16, K: 16, A: "f16", B: "f16", C: "f32", R: "f32", Scope: ScopeSubgroup},
			{M: 16, N: 8, K: 16, A: "f16", B: "f16", C: "f16", R: "f16", Scope: ScopeSubgroup},
		},
		Matrix2:    &Matrix2{WorkgroupScope: true, Dims: []MatrixShape{{M: 32}, {M: 16}}},
		DeviceUUID: "00ff", DriverUUID: "01", PipelineCacheUUID: "02", DeviceMemory: 1 << 36,
	}
}

func TestCapsJSONRoundTrip(t *testing.T) {
	want := sampleCaps()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Caps
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read back %+v\nwrote %+v", got, want)
	}
}

func TestFingerprint(t *testing.T) {
	base := sampleCaps().Fingerprint()
	if len(base) != 64 {
		t.Fatalf("fingerprint %q: want 64 hex digits", base)
	}
	same := map[string]func(*Caps){
		"name":           func(c *Caps) { c.Name = "Other" },
		"driver version": func(c *Caps) { c.DriverVersion, c.DriverInfo = 13, "1.3" },
		"patch level":    func(c *Caps) { c.API = Version(1, 4, 313) },
		"uuids":          func(c *Caps) { c.DeviceUUID, c.DriverUUID, c.PipelineCacheUUID = "a", "b", "c" },
		"memory size":    func(c *Caps) { c.DeviceMemory++ },
		"shape order":    func(c *Caps) { c.Matrices[0], c.Matrices[1] = c.Matrices[1], c.Matrices[0] },
		"dims order": func(c *Caps) {
			c.Matrix2.Dims[0], c.Matrix2.Dims[1] = c.Matrix2.Dims[1], c.Matrix2.Dims[0]
		},
	}
	for name, change := range same {
		c := sampleCaps()
		if change(&c); c.Fingerprint() != base {
			t.Errorf("%s changes the fingerprint", name)
		}
	}
	different := map[string]func(*Caps){
		"vendor":        func(c *Caps) { c.VendorID = VendorAMD },
		"minor version": func(c *Caps) { c.API = Version(1, 3, 312) },
		"subgroup size": func(c *Caps) { c.SubgroupSize = 64 },
		"shared memory": func(c *Caps) { c.MaxSharedMemory-- },
		"a feature":     func(c *Caps) { c.Features.Int8 = true },
		"a shape":       func(c *Caps) { c.Matrices = c.Matrices[:1] },
		"a dim":         func(c *Caps) { c.Matrix2.Dims[0].Invocations = 128 },
		"no matrix2":    func(c *Caps) { c.Matrix2 = nil },
	}
	for name, change := range different {
		c := sampleCaps()
		if change(&c); c.Fingerprint() == base {
			t.Errorf("%s does not change the fingerprint", name)
		}
	}
}

func TestFingerprintLeavesCapsAlone(t *testing.T) {
	c := sampleCaps()
	c.Fingerprint()
	if !reflect.DeepEqual(c, sampleCaps()) {
		t.Errorf("Fingerprint changed its receiver: %+v", c)
	}
}

func TestAPIVersionText(t *testing.T) {
	for text, want := range map[string]APIVersion{
		"1.2": Version(1, 2, 0), "1.4.354": Version(1, 4, 354), "0.0.0": 0, "127.1023.4095": Version(127, 1023, 4095),
	} {
		var got APIVersion
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "1.2.3.4", "1.x", "1.-2", "128.0", "1.1024", "1.2.4096", "null.1"} {
		var got APIVersion
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: read as %v; want an error", text, got)
		}
	}
	if v := Version(1, 3, 230); !v.AtLeast(1, 3) || !v.AtLeast(1, 2) || v.AtLeast(1, 4) || v.AtLeast(2, 0) {
		t.Errorf("AtLeast misjudges %v", v)
	}
}

func TestHasMatrix(t *testing.T) {
	c := sampleCaps()
	if !c.HasMatrix(16, 16, 16, "f16", "f32") {
		t.Error("a listed shape is not found")
	}
	if c.HasMatrix(16, 16, 16, "f16", "f16") {
		t.Error("a shape not listed is found")
	}
	c.Features.CooperativeMatrix = false
	if c.HasMatrix(16, 16, 16, "f16", "f32") {
		t.Error("a shape is found on a device without the feature")
	}
}

func TestSubgroupOps(t *testing.T) {
	s := SubgroupBasic | SubgroupArithmetic
	if !s.Has(SubgroupArithmetic) || s.Has(SubgroupArithmetic|SubgroupShuffle) {
		t.Errorf("Has misjudges %b", s)
	}
	if SubgroupRotateClustered != 0x400 || SubgroupQuad != 0x80 {
		t.Error("subgroup bits differ from Vulkan's")
	}
}
