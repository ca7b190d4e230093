package main

import (
	"context"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/ir"
)

// openOne opens a device for a command that takes only one.
func openOne(want, verb string) (*vkc.Device, error) {
	if strings.Contains(want, ",") {
		return nil, usagef("%s: --device %s: want one device", verb, want)
	}
	return openItself(want)
}

// openItself opens a device to measure or verify it. For "auto" it opens the best device without the CPU fallback,
// because the fallback would hide a failure of the device.
func openItself(want string) (*vkc.Device, error) {
	if !isAuto(want) {
		return vkc.OpenDevice(want)
	}
	dev, err := vkc.OpenDevice("vulkan")
	if err != nil {
		return vkc.OpenDevice(want)
	}
	return dev, nil
}

func isAuto(want string) bool { return want == "" || strings.EqualFold(want, "auto") }

// openLayers loads a graph on all devices of a list such as 0,1, with some layers on each.
func (s *session) openLayers(ctx context.Context, g *ir.Graph) (err error) {
	f := s.flags
	for _, flag := range []struct {
		name string
		set  bool
	}{{"a bundle", s.program != nil}, {"--sandbox", f.sandbox}, {"--profile", f.profile}, {"--trace", f.trace != ""},
		{"--measure", f.measure}, {"--no-cache", f.noCache}, {"--tuning and --no-tuning", f.tuning != tuningFlags{}}} {
		if flag.set {
			return usagef("run: several devices (--device %s) do not go with %s: name one device", f.device, flag.name)
		}
	}
	if s.device, err = vkc.OpenDevice(f.device); err != nil {
		return err
	}
	bar := s.progress("compiling and loading", false)
	defer bar.end()
	if s.exe, err = s.device.LoadGraph(ctx, g, s.weights); err != nil {
		return err
	}
	bar.end()
	s.note("runs on %s", s.exe.Why())
	return nil
}
