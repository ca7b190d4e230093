package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/runtime/vk"
)

// deviceEntry is one device of vkc devices --json.
type deviceEntry struct {
	Index int `json:"index"`
	// whether --device auto selects this device; only a GPU
	Auto    bool   `json:"auto"`
	Problem string `json:"problem,omitempty"` // why it cannot be used
	// features that VKC_DISABLE turned off
	Disabled []string     `json:"disabled,omitempty"`
	Caps     *device.Caps `json:"caps"`
}

// devicesInfo is the output of vkc devices --json.
type devicesInfo struct {
	Vulkan  string        `json:"vulkan,omitempty"` // version
	Devices []deviceEntry `json:"devices"`
	Error   string        `json:"error,omitempty"`
}

// devicesCommand declares the command vkc devices and its flags.
func (a *app) devicesCommand() *cobra.Command {
	var asJSON bool
	var profile, device string
	cmd := &cobra.Command{
		Use:   "devices",
		Short: "List the devices that can run programs",
		Long: `List the devices that can run programs. An asterisk marks the choice of --device auto: the best GPU, or
else the CPU fast path. With --json the list has all properties of each device. The CPU fast path (--device cpu) is
always available. The exit code is 1 if there is no Vulkan.

--profile writes a device to a file, with the measurements of vkc tune for it. On any machine, --target compiles
programs for the device in such a file.`,
		Example: "  vkc devices\n  vkc devices --json\n  vkc devices --profile mine.json\n" +
			"  vkc compile GRAPH.json --target mine.json",
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if profile == "" && cmd.Flags().Changed("device") {
				return usagef("--device goes with --profile; without it, vkc devices lists all devices")
			}
			if profile != "" {
				return a.writeProfile(device, profile)
			}
			info, err := listDevices()
			if err != nil {
				info.Error = oneLine(err)
			}
			if asJSON {
				if err := a.printJSON(info); err != nil {
					return err
				}
			} else if err := a.printDevices(info); err != nil {
				return err
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.StringVar(&profile, "profile", "", "write a device to `FILE.json`, for --target")
	flags.StringVarP(&device, "device", "d", "vulkan", "with --profile: vulkan (the best device), an index, or part "+
		"of a name")
	return cmd
}

// writeProfile writes the capabilities and the tuning of the device that want names as a profile, for --target.
func (a *app) writeProfile(want, path string) (err error) {
	if !strings.HasSuffix(path, ".json") {
		return usagef("--profile %s: want a FILE.json: --target takes other names for built-in profiles", path)
	}
	if err := writable("profile", path); err != nil {
		return err
	}
	dev, err := vkc.OpenDevice(want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if dev.IsCPU() {
		return usagef("--profile is for Vulkan devices, and %s is not one", dev.Name())
	}
	measured, _ := tunefile.DeviceTuning(dev.Caps()) // an unusable tuning file is ignored
	note := fmt.Sprintf("Written by vkc %s from %s, %s %s.", vkc.Version(), dev.Name(), dev.Caps().DriverName,
		dev.Caps().DriverInfo)
	text, err := device.EncodeProfile(measured.On(dev.Caps()), measured.Tuning(), note)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(path, text, 0o666); err != nil {
		return err
	}
	a.note("%s is in %s", dev.Name(), path)
	return nil
}

// listDevices probes all Vulkan devices. Its result is valid even when it returns an error too.
func listDevices() (devicesInfo, error) {
	info := devicesInfo{Devices: []deviceEntry{}}
	inst, err := vk.Open()
	if err != nil {
		return info, err
	}
	defer inst.Close()
	info.Vulkan = inst.APIVersion().String()
	best, _, err := vk.Choose(inst.Devices(), "vulkan")
	for _, d := range inst.Devices() {
		isGPU := vk.MayHaveGPU() && d.Caps.Type != device.DeviceCPU
		auto := err == nil && d.Index == best && isGPU
		info.Devices = append(info.Devices, deviceEntry{d.Index, auto, d.Problem, d.Disabled, &d.Caps})
	}
	return info, err
}

// printDevices prints the devices as a table. An asterisk marks the one that --device auto selects.
func (a *app) printDevices(info devicesInfo) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  DEVICE\tNAME\tTYPE\tMEMORY\tVULKAN\tDRIVER")
	cpuMark := "*" // --device auto selects the processor if there is no device for it
	for _, d := range info.Devices {
		mark := " "
		if d.Auto {
			mark, cpuMark = "*", " "
		}
		c := d.Caps
		fmt.Fprintf(w, "%s %d\t%s\t%s\t%s\t%s\t%s %s\n", mark, d.Index, c.Name, c.Type, size(int64(c.DeviceMemory)),
			c.API, c.DriverName, c.DriverInfo)
		if d.Problem != "" {
			fmt.Fprintf(w, "  \tcannot be used: %s\n", d.Problem)
		}
		if len(d.Disabled) > 0 {
			fmt.Fprintf(w, "  \twithout %s, by $%s\n", strings.Join(d.Disabled, ", "), device.DisableEnv)
		}
	}
	fmt.Fprintf(w, "%s cpu\tCPU fast path\tkernels for the processor\n", cpuMark)
	fmt.Fprint(w, "  reference\tCPU reference\tthe definition of every op\n")
	return w.Flush()
}
