package device

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/strictjson"
)

//go:embed profiles/*.json
var profileFiles embed.FS

// profileFile is the content of a file in profiles/: the caps of one device, notes on their origin, and measurements.
type profileFile struct {
	Notes []string `json:"notes"`
	// VariantOf names the profile that represents this kind of device, if this device is a variant of it.
	VariantOf string `json:"variant_of,omitempty"`
	Caps      Caps   `json:"caps"`
	// Tuning has the schedules measured on the device, in the format of vkc tune --json.
	Tuning Tuning `json:"tuning,omitempty"`
}

// Profiles returns the names of the built-in device profiles, in alphabetical order.
func Profiles() []string {
	entries, err := profileFiles.ReadDir("profiles")
	if err != nil {
		return nil // the folder is embedded, so this cannot happen
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	slices.Sort(names)
	return names
}

// Kinds returns the names of the built-in profiles that represent a kind of device. Tables compare these kinds, and
// golden/decisions has their decisions. The other profiles are variants of them.
func Kinds() []string {
	return slices.DeleteFunc(Profiles(), func(name string) bool {
		f, err := readProfile(name)
		return err == nil && f.VariantOf != ""
	})
}

// Profile returns the caps of a built-in profile, for compiling without the device. For an unknown name it returns an
// error that lists similar names.
func Profile(name string) (Caps, error) {
	f, err := readProfile(name)
	return f.Caps, err
}

// ProfileTuning returns the schedules measured on a profile's device. Most profiles have none.
func ProfileTuning(name string) (Tuning, error) {
	f, err := readProfile(name)
	return f.Tuning, err
}

// readProfile reads an embedded profile by name.
func readProfile(name string) (profileFile, error) {
	if have := Profiles(); !slices.Contains(have, name) {
		return profileFile{}, fmt.Errorf("device: no device profile %q (files end in .json); nearest: %s (all: %s)",
			name, strings.Join(filefmt.Nearest(name, have, 2), ", "), strings.Join(have, ", "))
	}
	text, err := profileFiles.ReadFile(path.Join("profiles", name+".json"))
	if err != nil {
		return profileFile{}, fmt.Errorf("device: profile %s: %w", name, err)
	}
	return parseProfile(name, text)
}

// parseProfile decodes a profile from JSON and checks its caps. Unknown fields are errors.
func parseProfile(name string, text []byte) (profileFile, error) {
	var f profileFile
	if err := strictjson.Decode(text, &f); err != nil { // strictly, because a misspelled limit would silently be 0
		return profileFile{}, fmt.Errorf("device: profile %s: %w: want what vkc devices --profile FILE.json writes",
			name, err)
	}
	if err := f.Caps.check(); err != nil {
		return profileFile{}, fmt.Errorf("device: profile %s: %w", name, err)
	}
	return f, nil
}

// maxProfileBytes limits the size of a profile file. A file with the tuning of many kernels has about 100 KB.
const maxProfileBytes = 4 << 20

// ReadProfile reads a file made by EncodeProfile: the caps of a device, and the schedules measured on it.
func ReadProfile(path string) (Caps, Tuning, error) {
	text, err := filefmt.Head(path, maxProfileBytes+1)
	if err == nil && len(text) > maxProfileBytes {
		err = fmt.Errorf("%s has over %d bytes, which no device profile has", path, maxProfileBytes)
	}
	if err != nil {
		return Caps{}, nil, fmt.Errorf("device: %w", err)
	}
	f, err := parseProfile(path, text)
	return f.Caps, f.Tuning, err
}

// EncodeProfile encodes a profile: caps without the identity of the individual device, notes on their origin, and
// measured schedules.
func EncodeProfile(caps Caps, tuning Tuning, notes ...string) ([]byte, error) {
	return profileFile{Notes: notes, Caps: caps, Tuning: tuning}.encode()
}

// EncodeVariant encodes a built-in profile of a device that is a variant of another built-in profile's device. of is
// the name of that other profile.
func EncodeVariant(caps Caps, of string, notes ...string) ([]byte, error) {
	return profileFile{Notes: notes, VariantOf: of, Caps: caps}.encode()
}

func (f profileFile) encode() ([]byte, error) {
	// Leave out what identifies an individual device or driver.
	f.Caps.DeviceUUID, f.Caps.DriverUUID, f.Caps.PipelineCacheUUID = "", "", ""
	text, err := json.MarshalIndent(f, "", "  ")
	return append(text, '\n'), err
}

// check returns an error for caps that no Vulkan device has.
func (c Caps) check() error {
	// subgroupSizes reports whether the sizes are powers of two up to 128, in ascending order.
	subgroupSizes := func(list ...uint32) bool {
		for i, n := range list {
			if n&(n-1) != 0 || n == 0 || n > 128 || i > 0 && n < list[i-1] {
				return false
			}
		}
		return true
	}
	rates := []float64{c.Machine.CopyGBps, c.Machine.MatrixF16, c.Machine.MatrixI8, c.Machine.VectorF32,
		c.Machine.LaunchNs, c.Machine.Relayed.LatencyNs, c.Machine.Relayed.GBps, c.Machine.Copied.LatencyNs,
		c.Machine.Copied.GBps, c.Machine.Staged.LatencyNs, c.Machine.Staged.GBps, float64(c.TimestampPeriod)}
	for _, rule := range []struct {
		holds bool
		what  string
	}{
		{c.Name != "" && c.Type != "", "a name and a type"},
		{c.API.AtLeast(1, 1), "Vulkan 1.1 or newer"},
		{c.MaxSharedMemory >= 16384, "shared memory of 16384 bytes, which Vulkan asks for"},
		{c.MaxInvocations >= 128 && c.MaxWorkgroupSize[0] >= 128, "workgroups of 128, which Vulkan asks for"},
		{slices.Min(c.MaxWorkgroupCount[:]) >= 65535, "grids of 65535 workgroups, which Vulkan asks for"},
		{c.MaxStorageRange >= 1<<27, "a storage range of 2^27 bytes, which Vulkan asks for"},
		{c.MaxStorageRange < 1<<32, "a storage range below 2^32 bytes, which is all that Vulkan can say"},
		{c.MaxAllocation >= min(c.MaxStorageRange, c.MaxBuffer, 1<<30), "allocations as large as its buffers"},
		{c.StorageAlignment > 0 && c.StorageAlignment <= 256, "an alignment of storage of 1 to 256"},
		{subgroupSizes(c.MinSubgroupSize, c.SubgroupSize, c.MaxSubgroupSize), "subgroup sizes of 1 to 128, in order"},
		{c.Cores <= 1<<16 && c.SubgroupsPerCore <= 1<<10, "at most 2^16 cores of 2^10 subgroups"},
		{len(c.Matrices) == 0 || c.Features.CooperativeMatrix, "matrix shapes only with cooperativeMatrix"},
		{(c.Matrix2 != nil) == c.Features.CooperativeMatrix2, "matrix2 where there is cooperativeMatrix2"},
		{slices.Min(rates) >= 0 && slices.Max(rates) <= 1e9, "times and rates of 0 to 10^9"},
	} {
		if !rule.holds {
			return fmt.Errorf("the device %q lacks %s", c.Name, rule.what)
		}
	}
	return nil
}

// Tuning maps tuning keys (schedule.TuningKey) to the fastest measured schedules of a device. A nil tuning has no
// effect.
type Tuning map[string]Tuned

// Tuned is the fastest measured schedule of a kernel.
type Tuned struct {
	Schedule kernel.Schedule `json:"schedule"`
	Micros   float64         `json:"us"`                // median time of a dispatch
	Next     float64         `json:"next_us,omitempty"` // of the second fastest; 0 if there is none
	// Estimated says that nothing was run: the times are computed from a driver's statistics.
	Estimated bool `json:"estimated,omitempty"`
}

// UnmarshalJSON decodes a schedule into the struct of its variant.
func (t *Tuned) UnmarshalJSON(text []byte) (err error) {
	// A type without methods, because decoding a Tuned would call UnmarshalJSON again.
	type fields Tuned
	all := struct {
		*fields
		// This Schedule hides fields.Schedule, because only ParseSchedule knows the variants.
		Schedule json.RawMessage `json:"schedule"`
	}{fields: (*fields)(t)}
	if err = strictjson.Decode(text, &all); err == nil {
		t.Schedule, err = kernel.ParseSchedule(all.Schedule)
	}
	return err
}

// Hash identifies the schedules that a tuning chooses, for caches of compiled programs. A new measurement with the same
// choices has the same hash. The hash of an empty tuning is "".
func (t Tuning) Hash() string {
	if len(t) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(sum, "%s %#v\n", key, t[key].Schedule)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// String returns the reason for the schedule, with its times.
func (t Tuned) String() string {
	how := "tuned"
	if t.Estimated {
		how = "estimated"
	}
	if t.Next == 0 {
		return fmt.Sprintf("%s: %.4g us", how, t.Micros)
	}
	return fmt.Sprintf("%s: %.4g us, next best %.4g", how, t.Micros, t.Next)
}
