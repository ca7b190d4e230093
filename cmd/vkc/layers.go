package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/ir"
)

// openOne opens a device for a command that takes only one.
func openOne(want, verb string) (*vkc.Device, error) {
	if strings.Contains(want, ",") {
		return nil, usagef("%s: --device %s: want one device", verb, want)
	}
	return openForMeasuring(want)
}

// openForMeasuring opens a device to measure or verify it, or to look at its kernels. For "auto" it opens the best
// Vulkan device, even one in software, and never falls back to the CPU, because that would hide a failure of the
// device.
func openForMeasuring(want string) (*vkc.Device, error) {
	dev, _, err := openForMeasuringBy(vkc.OpenDevice, want)
	return dev, err
}

// openForMeasuringBy opens the device `want` with function open, such as vkc.OpenDevice. For "auto" it first tries a
// Vulkan device, also one in software. If that fails, missing is the reason, and it opens `want`.
func openForMeasuringBy(open func(string, ...vkc.DeviceOption) (*vkc.Device, error), want string) (dev *vkc.Device,
	missing, err error) {
	if isAuto(want) {
		dev, missing = open("vulkan")
		if missing == nil {
			return dev, nil, nil
		}
		missing = fmt.Errorf("no Vulkan device can be used: %w", missing)
	}
	dev, err = open(want)
	return dev, missing, err
}

func isAuto(want string) bool { return want == "" || strings.EqualFold(want, "auto") }

// openLayers loads a graph on all devices of a list such as 0,1, with some layers on each.
func (s *session) openLayers(ctx context.Context, g *ir.Graph) (err error) {
	f := s.flags
	for _, flag := range []struct {
		name string
		set  bool
	}{{"a bundle", s.program != nil}, {"--sandbox", f.sandbox}, {"--profile", f.profile}, {"--trace", f.trace != ""},
		{"--measure", f.measure}, {"--no-cache", f.noCache}, {"--tuning and --no-tuning", f.tuning != tuningFlags{}},
		{"--tune", f.tune != 0}} {
		if flag.set {
			return usagef("--device %s names several devices, and %s runs on one: name one device", f.device, flag.name)
		}
	}
	if s.device, err = vkc.OpenDevice(f.device); err != nil {
		return err
	}
	bar := s.progress("compiling and loading")
	defer bar.end()
	if s.exe, err = s.device.LoadGraph(ctx, g, s.weights); err != nil {
		return err
	}
	bar.end()
	s.note("runs on %s", s.exe.Why())
	return nil
}
