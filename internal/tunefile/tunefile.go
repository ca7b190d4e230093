// Package tunefile stores the measurements of vkc tune in a file, one file per device.
//
// A file is readable JSON: a header with the format and the SHA-256 of the rest, the device, the state of the code
// generator that made the measured kernels, and all measurements by kernel. Read rejects a file that is damaged or
// belongs to another device or generator; the error says why.
package tunefile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/generator"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/internal/strictjson"
)

// Format is the value of a file's format field. Older formats are ignored: vkc.tuning.1 used keys of kernels without
// the buffer sizes, vkc.tuning.2 and vkc.tuning.3 had schedules with options that have since been renamed, and
// vkc.tuning.4 had no facts for estimates.
const Format = formatFamily + "5"

const formatFamily = "vkc.tuning."

// Limits of a file, above any that vkc tune writes.
const (
	maxFile     = 64 << 20
	maxKernels  = 1 << 16
	maxMeasured = 1 << 10
	maxText     = 1 << 10
	maxNumber   = 1 << 20 // of a schedule
)

// Status is the outcome of measuring a schedule.
type Status string

// The outcomes.
const (
	OK     Status = "ok"     // correct, and timed to the end
	Slow   Status = "slow"   // correct, and dropped early
	Wrong  Status = "wrong"  // its results differ from the reference
	Failed Status = "failed" // it could not be compiled or run
)

// Measurement is one schedule of a kernel.
type Measurement struct {
	Schedule kernel.Schedule `json:"schedule"`
	Status   Status          `json:"status"`
	Micros   float64         `json:"us,omitempty"` // median time of a dispatch, if it was timed
	Why      string          `json:"why,omitempty"`
	// Rated has the facts for an estimate of a schedule in tiles, else nil.
	Rated *schedule.Rated `json:"rated,omitempty"`
}

// UnmarshalJSON decodes a schedule into the struct of its variant.
func (m *Measurement) UnmarshalJSON(text []byte) (err error) {
	type fields Measurement
	all := struct {
		*fields
		Schedule json.RawMessage `json:"schedule"`
	}{fields: (*fields)(m)}
	if err = strictjson.Decode(text, &all); err == nil {
		m.Schedule, err = kernel.ParseSchedule(all.Schedule)
	}
	return err
}

// Kernel has all measurements of a kernel.
type Kernel struct {
	Key      string         `json:"key"`                  // schedule.TuningKey
	About    string         `json:"about"`                // for people
	Lengths  []int64        `json:"lengths,omitempty"`    // values of its symbols in the measurement
	Best     *device.Tuned  `json:"best,omitempty"`       // the fastest schedule, which compilations use
	Default  float64        `json:"default_us,omitempty"` // of the schedule without tuning
	Measured []Measurement  `json:"measured"`
	Standard kernel.Variant `json:"standard,omitempty"` // variant of the schedule without tuning
	// Traits has the facts about the kernel for estimates of its schedules in tiles; nil if it has none.
	Traits *schedule.Traits `json:"traits,omitempty"`
}

// File is the tuning of one device.
type File struct {
	Device    string   `json:"device"` // for people
	Driver    string   `json:"driver"`
	ID        string   `json:"id"`        // DeviceID
	Generator string   `json:"generator"` // the code generator that made the measured kernels
	Kernels   []Kernel `json:"kernels"`
	// Machine is how fast the device is, measured before any kernel.
	Machine device.Machine `json:"machine,omitzero"`
	// Estimated means that nothing was run: times are computed from the driver's statistics.
	Estimated bool `json:"estimated,omitempty"`
}

// envelope is the file's outer JSON object.
type envelope struct {
	Format string          `json:"format"`
	SHA256 string          `json:"sha256"` // of tuning, without white space
	Tuning json.RawMessage `json:"tuning"`
}

// DeviceID identifies a kind of device and its driver. Measurements are valid for one DeviceID. The measured speed of
// the device is not part of it.
func DeviceID(caps device.Caps) string {
	caps.Machine = device.Machine{}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d\n%s\n%d\n%s\n", caps.Fingerprint(), caps.Name, caps.DriverID,
		caps.DriverName, caps.DriverVersion, caps.DriverInfo))
	return hex.EncodeToString(sum[:])
}

// New returns an empty file for a device.
func New(caps device.Caps) *File {
	return &File{Device: caps.Name, Driver: strings.TrimSpace(caps.DriverName + " " + caps.DriverInfo),
		ID: DeviceID(caps), Generator: generator.ID()}
}

// Path returns the file for the measurements of a device with its driver, or "" if caches are off.
func Path(caps device.Caps) string {
	root, err := cachefile.Root()
	if err != nil || root == "" {
		return ""
	}
	return filepath.Join(root, "tuning", DeviceID(caps)[:16]+".json")
}

// Read reads a file. If there is no file, the error is fs.ErrNotExist.
func Read(path string) (*File, error) {
	text, err := inputfile.ReadAtMost(path, maxFile)
	if err != nil {
		return nil, err
	}
	file, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, nil
}

// ReadCached reads a file in vkc's cache. If another user could have written it, the error is a
// *cachefile.UntrustedError.
func ReadCached(path string) (*File, error) {
	if err := cachefile.Trusted(path); err != nil {
		return nil, err
	}
	return Read(path)
}

// Written reports whether vkc tune may overwrite a file: it wrote the file, in any version and for any device, or the
// file is missing or empty.
func Written(path string) (bool, error) {
	st, err := os.Stat(path)
	if Absent(err) || err == nil && (st.Size() == 0 || !st.Mode().IsRegular()) {
		return true, nil
	}
	if err != nil || st.Size() > maxFile {
		return false, err
	}
	text, err := inputfile.Read(path)
	if err != nil {
		return false, err
	}
	var e envelope
	return json.Unmarshal(text, &e) == nil && strings.HasPrefix(e.Format, formatFamily), nil
}

// Parse decodes and checks the content of a file of vkc tune.
func Parse(text []byte) (*File, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	}
	var e envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("not a tuning of vkc tune: %w", err)
	}
	if e.Format != Format {
		return nil, fmt.Errorf("format %q, want %q: another version of vkc wrote it; measure again with vkc tune",
			shorten(e.Format), Format)
	}
	sum, err := checksum(e.Tuning)
	if err != nil {
		return nil, err
	}
	if sum != e.SHA256 {
		return nil, errors.New("damaged: the checksum is not that of its content")
	}
	var f File
	if err := strictjson.Decode(e.Tuning, &f); err != nil {
		return nil, err
	}
	return &f, f.check()
}

// checksum hashes JSON without its white space, so that a file may be reindented.
func checksum(raw json.RawMessage) (string, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return "", fmt.Errorf("it holds no tuning: %w", err)
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:]), nil
}

func shorten(s string) string { return s[:min(len(s), 40)] }

// check returns an error if the file has values that no measurement can produce.
func (f *File) check() error {
	if len(f.Kernels) > maxKernels {
		return fmt.Errorf("%d kernels, more than %d", len(f.Kernels), maxKernels)
	}
	m := f.Machine
	for _, x := range []float64{m.CopyGBps, m.MatrixF16, m.MatrixI8, m.VectorF32, m.LaunchNs, m.BarrierNs} {
		if !(x >= 0) || math.IsInf(x, 0) { // NaN too
			return fmt.Errorf("a machine of %v", m)
		}
	}
	seen := map[string]bool{}
	for i := range f.Kernels {
		k := &f.Kernels[i]
		if seen[k.Key] {
			return fmt.Errorf("kernel %d: the key is taken", i)
		}
		seen[k.Key] = true
		if err := k.check(); err != nil {
			return fmt.Errorf("kernel %d: %w", i, err)
		}
	}
	return nil
}

// check returns an error if a kernel's record is not one that vkc tune writes.
func (k *Kernel) check() error {
	if raw, err := hex.DecodeString(k.Key); err != nil || len(raw) != sha256.Size {
		return fmt.Errorf("the key %q is not SHA-256 in hex", shorten(k.Key))
	}
	if len(k.About) > maxText || len(k.Measured) > maxMeasured || len(k.Lengths) > maxText {
		return fmt.Errorf("%d measurements of %q, more than there can be", len(k.Measured), shorten(k.About))
	}
	if b := k.Best; b != nil {
		if err := errors.Join(checkSchedule(b.Schedule), checkMicros(b.Micros), checkMicros(b.Next)); err != nil {
			return err
		}
		if !slices.ContainsFunc(k.Measured, func(m Measurement) bool {
			return m.Schedule == b.Schedule && m.Status == OK
		}) {
			return errors.New("the best schedule is none that was measured and found right")
		}
	}
	for i, m := range k.Measured {
		if err := errors.Join(checkSchedule(m.Schedule), checkMicros(m.Micros), checkRated(m.Rated)); err != nil {
			return fmt.Errorf("measurement %d: %w", i, err)
		}
		if !slices.Contains([]Status{OK, Slow, Wrong, Failed}, m.Status) || len(m.Why) > maxText {
			return fmt.Errorf("measurement %d: status %q", i, shorten(string(m.Status)))
		}
	}
	if t := k.Traits; t != nil && !(t.ReadNs >= 0 && t.StoreNs >= 0 && t.MatMuls > 0 && t.Rows >= 0) {
		return fmt.Errorf("traits of %+v", *t)
	}
	return checkMicros(k.Default)
}

// checkRated returns an error if facts for an estimate are not those of a schedule.
func checkRated(r *schedule.Rated) error {
	if r == nil {
		return nil
	}
	ok := r.Groups > 0 && r.Flops > 0 && !math.IsInf(r.Flops, 0) && r.Slow >= 1 && !math.IsInf(r.Slow, 0)
	if !ok || len(r.Tile) > maxText || len(r.Table) > maxText || len(r.Why) > maxText {
		return fmt.Errorf("facts for an estimate of %s", shorten(fmt.Sprintf("%+v", *r)))
	}
	return nil
}

// checkMicros returns an error unless us is a time in microseconds.
func checkMicros(us float64) error {
	if !(us >= 0) || math.IsInf(us, 0) {
		return fmt.Errorf("a time of %v us", us)
	}
	return nil
}

// checkSchedule returns an error if a schedule has numbers that are out of range, so that later checks against a
// device's limits cannot overflow.
func checkSchedule(s kernel.Schedule) error {
	if s == nil {
		return errors.New("no schedule")
	}
	v := s.Config().Variant
	if v == "" || len(v) > 32 {
		return fmt.Errorf("the variant %q", shorten(string(v)))
	}
	for name, n := range kernel.Numbers(s) {
		if n < 0 || n > maxNumber {
			return fmt.Errorf("a number of %v for %s in schedule %s, want 0 to %d", n, name, v, maxNumber)
		}
	}
	return nil
}

// Encode returns the content of the file, which Parse decodes. It returns an error for values that no measurement can
// produce.
func (f *File) Encode() ([]byte, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	sum, err := checksum(raw)
	if err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(envelope{Format, sum, raw}, "", " ")
	return append(text, '\n'), err
}

// Write replaces a file atomically, and makes its directory if needed.
func (f *File) Write(path string) error {
	text, err := f.Encode()
	if err != nil {
		return fmt.Errorf("tuning: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, text, 0o644)
}

// Find returns the measurements of the kernel with this key, or nil.
func (f *File) Find(key string) *Kernel {
	for i := range f.Kernels {
		if f.Kernels[i].Key == key {
			return &f.Kernels[i]
		}
	}
	return nil
}

// Tuning returns the best schedule of each measured kernel, by the kernel's key. It returns nil for a nil file.
func (f *File) Tuning() device.Tuning {
	if f == nil {
		return nil
	}
	t := device.Tuning{}
	for _, k := range f.Kernels {
		if k.Best != nil {
			won := *k.Best
			won.Estimated = f.Estimated
			t[k.Key] = won
		}
	}
	return t
}

// On returns caps with the speeds of the machine that the file has. A nil file has none. The time of a barrier changes
// only if caps has none.
func (f *File) On(caps device.Caps) device.Caps {
	if f != nil && f.Machine != (device.Machine{}) {
		barrier := cmp.Or(caps.Machine.BarrierNs, f.Machine.BarrierNs)
		caps.Machine = f.Machine
		caps.Machine.BarrierNs = barrier
	}
	return caps
}

// DeviceTuning returns the measurements of vkc tune on a device, or nil if it never ran there. It returns an error if
// the file is unusable: damaged, measured by another version of vkc, or writable by another user. Only speed depends on
// the result.
func DeviceTuning(caps device.Caps) (*File, error) {
	path := Path(caps)
	if path == "" {
		return nil, nil
	}
	f, err := ReadCached(path)
	if Absent(err) {
		return nil, nil
	}
	if err == nil {
		err = f.Fits(caps)
	}
	if err != nil {
		return nil, fmt.Errorf("the tuning of this device is not used: %w", err)
	}
	return f, nil
}

// ReadTuning reads a file of vkc tune to compile for its device on another machine. The compiler skips schedules that
// the target cannot run.
func ReadTuning(path string) (*File, error) {
	f, err := Read(path)
	if err == nil {
		err = f.fitsGenerator()
	}
	if err != nil {
		return nil, fmt.Errorf("tuning %s: %w", path, err)
	}
	return f, nil
}

// ForeignError means that measurements belong to another device, driver or generator.
type ForeignError struct{ Why string }

func (e *ForeignError) Error() string { return e.Why }

// Fits returns a [*ForeignError] if the measurements are from another device or driver, or of kernels that another
// version of the generator wrote.
func (f *File) Fits(caps device.Caps) error {
	if f.ID != DeviceID(caps) {
		return &ForeignError{fmt.Sprintf("it is for %q (%s), this is %q (%s)", shorten(f.Device), shorten(f.Driver),
			caps.Name, strings.TrimSpace(caps.DriverName+" "+caps.DriverInfo))}
	}
	return f.fitsGenerator()
}

// fitsGenerator is the part of [File.Fits] that needs no device.
func (f *File) fitsGenerator() error {
	if f.Generator != generator.ID() {
		return &ForeignError{"another version of vkc measured it"}
	}
	return nil
}

// Absent reports whether an error of Read means that there is no file.
func Absent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
