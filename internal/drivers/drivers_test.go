package drivers

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/runtime/vk"
)

// driver is a row of the table of drivers.
type driver struct {
	name    string // DRIVER[:GPU] of scripts/with-driver
	profile string // that it wrote, or that describes its device
	of      string // the profile that stands for the kind of device; "" where this one does
	notes   []string
	machine device.Machine
	memory  uint64 // of the device, for drivers that report this machine's memory
	sample  bool   // whether a plain test compiles for it
	runs    bool   // whether it runs kernels: vkc verify --ops does that, and it has no statistics
}

// drivers lists the drivers in .tools/drivers. A profile "of" another one is assumed to have the same speed per core.
var drivers = []driver{
	{name: "radv:navi21", profile: "amd-rdna2", of: "amd-rdna3",
		notes: []string{"RDNA 2: no matrix units; dot products of bytes."}},
	{name: "radv:navi31", profile: "amd-rdna3", sample: true,
		notes: []string{"96 compute units of two SIMDs with 16 wave slots each; waves of 64, or 32 where a kernel " +
			"asks; 6 MB of " +
			"L2 before 96 MB of Infinity Cache.",
			"Of its 960 GB/s of memory a copy is taken to reach 800; arithmetic is of its maker's data sheet, " +
				"launches are guessed."},
		machine: device.Machine{CopyGBps: 800, MatrixF16: 123, MatrixI8: 123, VectorF32: 61, LaunchNs: 5000}},
	{name: "radv:navi33", profile: "amd-rdna3-navi33", of: "amd-rdna3"},
	{name: "radv:gfx1201", profile: "amd-rdna4", of: "amd-rdna3"},
	{name: "turnip:630", profile: "qualcomm-adreno630", of: "qualcomm-adreno740", memory: 6 << 30},
	{name: "turnip:740", profile: "qualcomm-adreno740", sample: true, memory: 8 << 30,
		notes: []string{"An Adreno 740 of a Snapdragon 8 Gen 2: six shader processors of 32 KiB of shared memory " +
			"each; waves of " +
			"64 or 128; unified memory.",
			"Its 67 GB/s of memory serve all of the chip, of which a copy is taken to reach 40; arithmetic is from " +
				"published " +
				"figures, launches are guessed."},
		machine: device.Machine{CopyGBps: 40, MatrixF16: 3.7, MatrixI8: 7.4, VectorF32: 1.8, LaunchNs: 10000}},
	{name: "turnip:830", profile: "qualcomm-adreno830", of: "qualcomm-adreno740", memory: 12 << 30},
	{name: "honeykrisp", profile: "apple-m1", of: "generic", sample: true, memory: 8 << 30,
		notes: []string{"Of its 68 GB/s of memory, which serve all of the chip, a copy is taken to reach 58; " +
			"arithmetic is of its " +
			"maker's data sheet, launches are guessed."},
		machine: device.Machine{CopyGBps: 58, MatrixF16: 2.6, MatrixI8: 2.6, VectorF32: 2.6, LaunchNs: 10000}},
	{name: "nvk:190", profile: "nvidia-ada-nvk", of: "nvidia-h100", sample: true},
	{name: "swiftshader", profile: "swiftshader", of: "lavapipe", runs: true,
		notes: []string{"Google's driver for processors: subgroups of 4, 32 KiB of shared memory, no 8-bit storage."}},
}

var (
	updateGolden = flag.Bool("update-golden", false, "rewrite golden/drivers and the profiles of drivers")
	all          = flag.Bool("all", false, "compile every kernel on every driver, not one of each kind on some")
	child        = flag.String("child", "", "what this process is to do on the driver that it was started on")
)

// prefix is where the drivers are.
const prefix = "../../.tools/drivers"

func TestMain(m *testing.M) {
	flag.Parse()
	if *child == "" {
		os.Exit(m.Run())
	}
	if err := work(*child, *all, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// work executes one task of a child process.
func work(what string, all bool, out io.Writer) (err error) {
	inst, err := vk.Open()
	if err != nil {
		return err
	}
	defer inst.Close()
	dev, err := inst.OpenDevice(0, vk.DeviceOptions{})
	if err != nil {
		return err
	}
	defer func() {
		if closing := dev.Close(); err == nil {
			err = closing
		}
	}()
	if what == "caps" {
		return json.NewEncoder(out).Encode(dev.Caps())
	}
	return compileAll(dev, all, json.NewEncoder(out))
}

// The limits of a child: of address space, in KiB, as shaders are compiled in this process, and of time.
const (
	childMemory = 12 << 20
	childTime   = 20 * time.Minute
)

// on runs the child with a driver and returns its output.
func on(t *testing.T, d driver, what string) []byte {
	t.Helper()
	if _, err := os.Stat(filepath.Join(prefix, "run")); err != nil {
		t.Skip("there are no drivers in .tools/drivers; make drivers installs them")
	}
	run, err := filepath.Abs(filepath.Join(prefix, "run"))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("VKC_EXEC") != "" { // os.Executable names the loader of another prefix
		self = os.Args[0]
	}
	ctx, cancel := context.WithTimeout(t.Context(), childTime) // clock: a compiler that has no end
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$@"`, childMemory), "sh", run, self,
		"-child", what, fmt.Sprintf("-all=%v", *all))
	// Mesa's own cache would tell how long it takes to read a file.
	cmd.Env = append(os.Environ(), "VKC_DRIVER="+d.name, "MESA_SHADER_CACHE_DISABLE=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v (%v)\n%s", d.name, err, ctx.Err(), errs.String())
	}
	return out.Bytes()
}

// TestGoldenProfiles compares the drivers' profiles with the caps that the drivers report.
func TestGoldenProfiles(t *testing.T) {
	for _, d := range drivers {
		t.Run(d.profile, func(t *testing.T) {
			t.Parallel()
			var caps device.Caps
			if err := json.Unmarshal(on(t, d, "caps"), &caps); err != nil {
				t.Fatal(err)
			}
			caps.Machine = d.machine
			if d.memory > 0 {
				caps.DeviceMemory = d.memory
			}
			version := caps.DriverName + " " + strings.TrimSpace(caps.DriverInfo)
			notes := append([]string{fmt.Sprintf("As reported by %s, run without the device (scripts/with-driver %s).",
				strings.TrimSpace(version), d.name)}, d.notes...)
			if d.machine == (device.Machine{}) {
				notes = append(notes, "Nothing was measured: it is taken to be as fast as "+d.of+", core for core.")
			}
			text, err := device.EncodeVariant(caps, d.of, notes...)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("..", "..", "codegen", "device", "profiles", d.profile+".json")
			if *updateGolden {
				if err := os.WriteFile(path, text, 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			have, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(have, []byte(version)) {
				t.Skipf("the profile was written by another version of the driver than %s", version)
			}
			if !bytes.Equal(have, text) {
				t.Errorf("%s is not what %s reports: go test ./internal/drivers -run GoldenProfiles -update-golden "+
					"rewrites it", path, d.name)
			}
		})
	}
}
