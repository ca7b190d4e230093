package target

// Vendor ids as Vulkan reports them: PCI ids, and Khronos ids for vendors without one. A driver
// of Mesa for what has no id of its own reports Mesa's, so that says nothing.
const (
	VendorAMD    = 0x1002
	VendorNVIDIA = 0x10de
	VendorApple  = 0x106b
	VendorARM    = 0x13b5
	VendorGoogle = 0x1ae0
	VendorQCOM   = 0x5143
	VendorIntel  = 0x8086
)

// classes are tried in order. What none owns gets generic, from its caps alone.
var classes = []class{cpu, nvidia, amd, intel, arm, qualcomm, apple, generic}
