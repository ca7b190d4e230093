package device

import (
	"slices"
	"strings"
)

// Vendor ids as Vulkan reports them: PCI ids, or Khronos ids for vendors without one. Mesa's drivers report Mesa's own
// id for devices without an id; it says nothing about the vendor.
const (
	VendorAMD    = 0x1002
	VendorNVIDIA = 0x10de
	VendorApple  = 0x106b
	VendorARM    = 0x13b5
	VendorGoogle = 0x1ae0
	VendorQCOM   = 0x5143
	VendorIntel  = 0x8086
)

// The drivers that need different treatment, by VkDriverId.
const (
	driverLavapipe   = 13
	DriverNVK        = 24
	driverHoneykrisp = 26
)

// class describes a class of devices, such as all NVIDIA GPUs. The heuristics for its schedules are in package
// codegen/schedule, in the file of the same name.
type class struct {
	name string
	// owns reports whether a device belongs to the class, if it belongs to no earlier class.
	owns func(Caps) bool
	// profile names the profile that has the class's rates per core.
	profile string
	// queueApart says that the gap between submissions is shorter in a compute-only queue than in one that also draws
	// (docs/measurements, M-token-gap).
	queueApart bool
	// noGridBarrier reports whether the workgroups of a device cannot wait for each other in a kernel. If it is nil,
	// they can on all devices of the class.
	noGridBarrier func(Caps) bool
	// doubles is the time of an f64 operation, in f32 operations, on GPUs made for graphics; 0 if unknown. It is 2 on
	// devices that are made for computing: they have one of fastDoubles in their name.
	doubles     int
	fastDoubles []string
}

// classes are tried in order. The last one, generic, owns all devices.
var classes = []class{
	{name: "cpu", owns: func(c Caps) bool { return c.Type == DeviceCPU }, profile: "lavapipe"},
	{name: "nvidia", owns: ofVendor(VendorNVIDIA), profile: "nvidia-h100", queueApart: true,
		noGridBarrier: func(c Caps) bool { return c.DriverID == DriverNVK },
		doubles:       64,
		fastDoubles:   []string{"P100", "V100", "A100", "A30", "H100", "H200", "H800", "B100", "B200"}},
	{name: "amd", owns: ofVendor(VendorAMD), profile: "amd-rdna3", doubles: 16,
		fastDoubles: []string{"MI50", "MI60", "MI100", "MI2", "MI3"}},
	{name: "intel", owns: ofVendor(VendorIntel), profile: "intel-xe"},
	{name: "arm", owns: ofVendor(VendorARM), profile: "arm-mali"},
	{name: "qualcomm", owns: ofVendor(VendorQCOM), profile: "qualcomm-adreno740"},
	// Mesa's driver reports Mesa as the vendor, so its driver id identifies the device.
	{name: "apple", owns: func(c Caps) bool { return c.VendorID == VendorApple || c.DriverID == driverHoneykrisp },
		profile: "apple-m1"},
	{name: "generic", owns: func(Caps) bool { return true }, profile: "generic"},
}

func ofVendor(id uint32) func(Caps) bool { return func(c Caps) bool { return c.VendorID == id } }

// classOf returns the class of a device.
func classOf(caps Caps) class {
	return classes[slices.IndexFunc(classes, func(c class) bool { return c.owns(caps) })]
}

// machine returns the rates of a device of the class.
func (c class) machine(caps Caps) Machine {
	m := machineOf(caps, c.profile)
	if c.noGridBarrier != nil && c.noGridBarrier(caps) {
		m.BarrierNs = 0 // no persistent kernels
	}
	return m
}

// Class names the class of a device, such as "nvidia" or "generic".
func Class(caps Caps) string { return classOf(caps).name }

// DoubleTimes returns the time of an f64 operation on a device, in f32 operations, or 0 if that is unknown. For
// example, 64 means that f64 takes 64 times as long.
func DoubleTimes(caps Caps) int {
	c := classOf(caps)
	for _, name := range c.fastDoubles {
		if strings.Contains(caps.Name, name) {
			return 2
		}
	}
	return c.doubles
}

// QueueApart reports whether programs should run in a compute-only queue, if the device has one.
func QueueApart(caps Caps) bool { return classOf(caps).queueApart }
