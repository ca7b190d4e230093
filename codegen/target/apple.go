package target

// apple: an invocation has 256 registers of 16 bits, and beyond spills. Subgroups of 32, 32 KiB of shared memory,
// unified memory. Mesa's driver, which reports Mesa as the vendor, is told by its driver id.
var apple = class{
	name: "apple",
	owns: func(c Caps) bool { return c.VendorID == VendorApple || c.DriverID == driverHoneykrisp },
	heuristics: func(caps Caps) heuristics {
		t := genericHeuristics(caps, "apple-m1")
		t.registers = 128
		t.vecSums = 5 // each takes some 10 registers over blocks (golden/drivers)
		return t
	},
}

// driverHoneykrisp is VK_DRIVER_ID_MESA_HONEYKRISP.
const driverHoneykrisp = 26
