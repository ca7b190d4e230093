package runtime

import (
	"cmp"
	"maps"
	"slices"
)

// MemoryOwner is a purpose that device memory is allocated for, such as weights.
type MemoryOwner string

// The purposes.
const (
	OwnWeights MemoryOwner = "weights" // also constants, and copies in another layout that Load makes of both
	// OwnHostWeights is for weights in host memory, which kernels read over the bus.
	OwnHostWeights MemoryOwner = "weights in host memory"

	OwnStates  MemoryOwner = "states"
	OwnTemps   MemoryOwner = "temporaries"
	OwnPorts   MemoryOwner = "inputs and outputs" // the programs' own buffers for them
	OwnTensors MemoryOwner = "device tensors"     // kept outputs and uploaded tensors
	OwnStaging MemoryOwner = "staging"            // host memory for transfers to and from the device
	OwnOther   MemoryOwner = "other buffers"
)

// MemoryUse maps each purpose to the number of bytes allocated for it.
type MemoryUse map[MemoryOwner]uint64

// Total returns the number of bytes for all purposes.
func (m MemoryUse) Total() (total uint64) {
	for _, n := range m {
		total += n
	}
	return total
}

// Add returns the sum of m and other for each purpose.
func (m MemoryUse) Add(other MemoryUse) MemoryUse {
	sum := MemoryUse{}
	for _, use := range []MemoryUse{m, other} {
		for owner, n := range use {
			sum[owner] += n
		}
	}
	return sum
}

// Largest lists the purposes that memory is allocated for, by descending size.
func (m MemoryUse) Largest() []MemoryOwner {
	return slices.SortedFunc(maps.Keys(m), func(a, b MemoryOwner) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
}
