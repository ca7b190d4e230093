package target

// Vendor ids as Vulkan reports them: PCI ids, and Khronos ids for vendors without one.
const (
	VendorAMD    = 0x1002
	VendorImgTec = 0x1010
	VendorApple  = 0x106b
	VendorNVIDIA = 0x10de
	VendorARM    = 0x13b5
	VendorGoogle = 0x1ae0
	VendorQCOM   = 0x5143
	VendorIntel  = 0x8086
	VendorMesa   = 0x10005
)

// classes are tried in order. What none owns gets generic, from its caps alone.
var classes = []class{cpu, nvidia, amd, intel, arm, generic}
