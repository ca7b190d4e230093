package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/runtime/vk"
)

// targetHelp describes the --target flag.
func targetHelp() string {
	return "the device to compile for: auto (the best device here) or a profile (" +
		strings.Join(device.Profiles(), ", ") + ", or a FILE.json of vkc devices --profile)"
}

// tuningFlags are the flags of commands that compile. They select measured schedules.
type tuningFlags struct {
	file string
	none bool
}

// add declares the flag of all these commands.
func (f *tuningFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.none, "no-tuning", false, "ignore the measurements of vkc tune")
}

// addWithFile declares the flags of commands that compile for other machines too.
func (f *tuningFlags) addWithFile(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "tuning", "",
		"use the schedules in `FILE` of vkc tune --output, instead of the target's own")
	f.add(cmd)
}

// choose returns the capabilities and the tuning to compile for, by --tuning and --no-tuning. Without these flags it
// returns caps and own, the target's own tuning. A tuning may change the capabilities by measured speeds.
func (f *tuningFlags) choose(caps device.Caps, own device.Tuning) (device.Caps, device.Tuning, error) {
	switch {
	case f.none && f.file != "":
		return caps, nil, usagef("--tuning and --no-tuning exclude each other")
	case f.none:
		return caps, device.Tuning{}, nil
	case f.file != "":
		measured, err := tunefile.ReadTuning(f.file)
		return measured.On(caps), measured.Tuning(), err
	}
	return caps, own, nil
}

// noteTuning prints why the device's tuning file cannot be used, if there is one.
func (a *app) noteTuning(dev *vkc.Device) {
	if _, err := tunefile.DeviceTuning(dev.Caps()); err != nil {
		a.note("%s; vkc tune measures again", oneLine(err))
	}
}

// anyTarget is the profile that runs on every device.
const anyTarget = "generic"

// targetCaps returns the capabilities and the tuning of the device to compile for. want is the value of --target: a
// file or name of a device profile, "auto" for the best device of this machine, or "". Without --target it takes the
// best device too, or anyTarget if there is none.
func (a *app) targetCaps(want string, f *tuningFlags) (device.Caps, device.Tuning, error) {
	if strings.HasSuffix(want, ".json") {
		caps, own, err := device.ReadProfile(want)
		if err != nil {
			return caps, nil, err
		}
		return f.choose(caps, own)
	}
	if want != "" && !strings.EqualFold(want, "auto") {
		caps, err := device.Profile(want)
		if err != nil {
			return caps, nil, usagef("--target: %w", err)
		}
		own, err := device.ProfileTuning(want)
		if err != nil {
			return caps, nil, err
		}
		return f.choose(caps, own)
	}
	dev, err := vkc.OpenDevice("vulkan")
	missing := errors.Is(err, vk.ErrUnavailable)
	switch {
	case want == "" && missing:
		a.say("there is no device here, so this is compiled for %s, which every device can run (%s); --target names "+
			"another", anyTarget, oneLine(err))
		return a.targetCaps(anyTarget, f)
	case missing:
		return device.Caps{}, nil, fmt.Errorf("there is no device for --target auto: %w; install its driver, or name "+
			"a profile: %s", err,
			strings.Join(device.Profiles(), ", "))
	case err != nil:
		return device.Caps{}, nil, err
	}
	defer dev.Close()
	if want == "" {
		a.note("compiling for the device here, %s; --target names another", dev.Name())
	}
	if f.file != "" || f.none {
		return f.choose(dev.Caps(), nil)
	}
	a.noteTuning(dev)
	own, _ := tunefile.DeviceTuning(dev.Caps())
	return own.On(dev.Caps()), own.Tuning(), nil
}
