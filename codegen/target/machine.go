package target

// machine is how fast a device is, about: whether another kernel, or the same work
// done twice, is worth it is weighed in these. Vulkan reports none of it, so a class
// gives the figures of one device, and others have as much for each of their cores.
type machine struct {
	cores int64 // of the device whose figures these are, which rates of tiles are of, too

	memoryRate float64 // of a kernel that copies, in bytes per nanosecond
	cacheRate  float64 // of reading what all workgroups read, likewise
	matrixRate float64 // of large products of 16 bits on matrix units, in TFLOP/s
	launchTime float64 // what a further dependent kernel takes, in nanoseconds
	normTime   float64 // what a kernel that norms one row takes, launch included
}

// handicaps are by how much a product on matrix units is slower than one whose
// operands lie in memory in whole tiles.
type handicaps struct {
	clamped      float64 // reads are held back at the edges of narrow tiles, and more in wide ones
	besideDriver float64 // operands are staged beside what the driver stages itself
	shifted      float64 // windows are shifted into place
	unaligned    float64 // operands do not begin at 16 bytes
	computed     float64 // operands are computed on the way, at most
	computedRows float64 // a tile of so many rows takes as long to compute as to multiply
	seldomFull   float64 // tiles of many columns hold groups of few rows
}

// withCores is the machine with so many cores in place of those it has: what takes
// one kernel's time does not depend on them.
func (m machine) withCores(n int64) machine {
	times := float64(n) / float64(m.cores)
	m.cores = n
	m.memoryRate *= times
	m.cacheRate *= times
	m.matrixRate *= times
	return m
}
