package vk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/disabled"
)

// Instance is a Vulkan instance with its list of devices. Its methods may be called concurrently.
type Instance struct {
	native   nativeInstance
	physical []physicalDevice
	infos    []DeviceInfo

	mu     sync.Mutex
	open   map[*Device]struct{}
	closed bool
}

// newestAPI is the newest version of Vulkan that this package uses.
var newestAPI = device.Version(1, 3, 0)

// Open loads the system's Vulkan loader, creates an instance and queries its devices. Its error wraps [ErrUnavailable]
// if the machine has no Vulkan. It returns an instance without error if there are no devices.
func Open() (*Instance, error) {
	off := disabled.List()
	newest, err := device.Caps{API: newestAPI}.Without(off...)
	if err != nil {
		return nil, fmt.Errorf("vk: $%s: %w", device.DisableEnv, err)
	}
	native, err := openNative(newest.API)
	if err != nil {
		return nil, err
	}
	inst := &Instance{native: native, open: map[*Device]struct{}{}}
	if err := inst.probe(off); err != nil {
		native.close()
		return nil, err
	}
	return inst, nil
}

// probe finds the devices and their capabilities, without the features in off.
func (inst *Instance) probe(off []string) error {
	physical, r := inst.native.devices()
	if err := r.check("enumerate devices"); err != nil {
		return err
	}
	var err error
	for i, p := range physical {
		info, r := inst.native.probe(p)
		if err := r.check("probe device %d", i); err != nil {
			return err
		}
		info.Index, info.Disabled = i, off
		if info.Caps, err = info.Caps.Without(off...); err != nil {
			return fmt.Errorf("vk: $%s: %w", device.DisableEnv, err)
		}
		inst.infos = append(inst.infos, info)
	}
	inst.physical = physical
	return nil
}

// APIVersion returns the instance's Vulkan version. A device's version may be lower.
func (inst *Instance) APIVersion() device.APIVersion {
	if inst == nil {
		return 0
	}
	return device.APIVersion(inst.native.apiVersion())
}

// Devices returns the devices in the driver's order. It includes devices that this package cannot use, see
// [DeviceInfo].Problem.
func (inst *Instance) Devices() []DeviceInfo {
	if inst == nil {
		return nil
	}
	return slices.Clone(inst.infos)
}

// OpenDevice opens the device with the given index in [Instance.Devices].
func (inst *Instance) OpenDevice(index int, options DeviceOptions) (*Device, error) {
	if inst == nil {
		return nil, errors.New("vk: open a device: there is no instance: Open makes one, unless it returns an error")
	}
	if index < 0 || index >= len(inst.infos) {
		return nil, fmt.Errorf("vk: device %d: there are %d devices, counted from 0", index, len(inst.infos))
	}
	inst.mu.Lock()
	defer inst.mu.Unlock()
	if inst.closed {
		return nil, fmt.Errorf("vk: open device %d: instance %w", index, ErrClosed)
	}
	d, err := newDevice(inst, index, options)
	if err != nil {
		return nil, err
	}
	inst.open[d] = struct{}{}
	return d, nil
}

// Close closes the instance. If devices are still open, it closes them first and returns an error. Closing twice is
// fine.
func (inst *Instance) Close() error {
	if inst == nil {
		return nil
	}
	inst.mu.Lock()
	if inst.closed {
		inst.mu.Unlock()
		return nil
	}
	inst.closed = true
	left := slices.Collect(maps.Keys(inst.open))
	inst.mu.Unlock()

	var errs []error
	for _, d := range left {
		errs = append(errs, fmt.Errorf("vk: instance closed while device %s was open", d.info.Caps.Name), d.Close())
	}
	inst.native.close()
	return errors.Join(errs...)
}

// forget removes a closed device from the open ones.
func (inst *Instance) forget(d *Device) {
	inst.mu.Lock()
	delete(inst.open, d)
	inst.mu.Unlock()
}

// ValidationMessages returns the warnings and errors that Vulkan's validation layers have reported in this process,
// oldest first. It returns none unless environment variable VK_INSTANCE_LAYERS enables layers. If there are more than
// 256 messages, the last line counts the others.
func ValidationMessages() []string {
	texts, total := nativeMessages()
	if total > len(texts) {
		texts = append(texts, fmt.Sprintf("and %d more", total-len(texts)))
	}
	return texts
}
