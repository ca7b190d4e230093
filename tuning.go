package vkc

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/internal/cachefile"
	"github.com/vkc-go/vkc/internal/tunefile"
)

// TuningPath returns the file in which `vkc tune` keeps the measurements of a
// device with its driver, or "" where caches are off.
func TuningPath(caps target.Caps) string {
	root, err := cachefile.Root()
	if err != nil || root == "" {
		return ""
	}
	return tunefile.Path(root, caps)
}

// DeviceTuning returns the schedules that `vkc tune` chose on a device, or nil
// where it never ran there. The error says why a file that is there cannot be
// used: it is damaged, another version of vkc measured it, or somebody else could
// have written it. Nothing depends on it but speed.
func DeviceTuning(caps target.Caps) (target.Tuning, error) {
	path := TuningPath(caps)
	if path == "" {
		return nil, nil
	}
	f, err := tunefile.ReadCached(path)
	if tunefile.Absent(err) {
		return nil, nil
	}
	if err == nil {
		err = f.Fits(caps, Generator())
	}
	if err != nil {
		return nil, fmt.Errorf("the tuning of this device is not used: %w", err)
	}
	return f.Tuning(), nil
}

// ReadTuning returns the schedules in a file of `vkc tune`, for compiling for
// the device that it was measured on where that is not at hand. A schedule that
// the target cannot run is passed over when it is compiled for.
func ReadTuning(path string) (target.Tuning, error) {
	f, err := tunefile.Read(path)
	if err == nil {
		err = f.FitsGenerator(Generator())
	}
	if err != nil {
		return nil, fmt.Errorf("tuning %s: %w", path, err)
	}
	return f.Tuning(), nil
}
