package device

import "slices"

// Vendor ids as Vulkan reports them: PCI ids, and Khronos ids for vendors without one. Mesa's drivers report Mesa's own
// id for devices without an id, so that id says nothing about the vendor.
const (
	VendorAMD    = 0x1002
	VendorNVIDIA = 0x10de
	VendorApple  = 0x106b
	VendorARM    = 0x13b5
	VendorGoogle = 0x1ae0
	VendorQCOM   = 0x5143
	VendorIntel  = 0x8086
)

// Drivers that are told apart, as VkDriverId has them.
const (
	DriverNVK        = 24
	driverHoneykrisp = 26
)

// class describes a kind of device. Its heuristics for schedules are in package codegen/schedule, in the file of the
// same name.
type class struct {
	name string
	owns func(Caps) bool
	// profile names the profile whose rates per core the class uses.
	profile string
	// queueApart means that the gap between submissions is shorter in a compute-only queue (M-token-gap).
	queueApart bool
	// cannotMeet reports devices of the class whose workgroups cannot synchronize with each other.
	cannotMeet func(Caps) bool
}

// classes are tried in order. What none owns is generic.
var classes = []class{
	{name: "cpu", owns: func(c Caps) bool { return c.Type == DeviceCPU }, profile: "lavapipe"},
	{name: "nvidia", owns: ofVendor(VendorNVIDIA), profile: "nvidia-h100", queueApart: true,
		cannotMeet: func(c Caps) bool { return c.DriverID == DriverNVK }},
	{name: "amd", owns: ofVendor(VendorAMD), profile: "amd-rdna3"},
	{name: "intel", owns: ofVendor(VendorIntel), profile: "intel-xe"},
	{name: "arm", owns: ofVendor(VendorARM), profile: "arm-mali"},
	{name: "qualcomm", owns: ofVendor(VendorQCOM), profile: "qualcomm-adreno740"},
	// Mesa's driver, which reports Mesa as the vendor, is told by its driver id.
	{name: "apple", owns: func(c Caps) bool { return c.VendorID == VendorApple || c.DriverID == driverHoneykrisp },
		profile: "apple-m1"},
	{name: "generic", owns: func(Caps) bool { return true }, profile: "generic"},
}

func ofVendor(id uint32) func(Caps) bool { return func(c Caps) bool { return c.VendorID == id } }

// classOf returns the class of a device.
func classOf(caps Caps) class {
	return classes[slices.IndexFunc(classes, func(c class) bool { return c.owns(caps) })]
}

// machine is how fast a device of the class is.
func (c class) machine(caps Caps) Machine {
	m := machineOf(caps, c.profile)
	if c.cannotMeet != nil && c.cannotMeet(caps) {
		m.MeetNs = 0
	}
	return m
}

// Class names the class of devices that this device belongs to, such as "nvidia" or "generic".
func Class(caps Caps) string { return classOf(caps).name }

// QueueApart reports whether programs should run in a compute-only queue, if the device has one.
func QueueApart(caps Caps) bool { return classOf(caps).queueApart }
