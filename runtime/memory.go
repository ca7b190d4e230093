package runtime

import (
	"cmp"
	"maps"
	"slices"
)

// MemoryOwner is the purpose of a part of device memory.
type MemoryOwner string

// The owners of memory.
const (
	OwnWeights MemoryOwner = "weights" // constants, and copies that programs derive from either at load
	// OwnHostWeights is for weights in host memory, which kernels read over the bus.
	OwnHostWeights MemoryOwner = "weights in host memory"

	OwnStates  MemoryOwner = "states"
	OwnTemps   MemoryOwner = "temporaries"
	OwnPorts   MemoryOwner = "inputs and outputs" // the programs' own buffers for them
	OwnTensors MemoryOwner = "device tensors"     // kept outputs and uploaded tensors
	OwnStaging MemoryOwner = "staging"            // host memory for transfers to and from the device
	OwnOther   MemoryOwner = "other buffers"
)

// MemoryUse is the number of bytes of each owner.
type MemoryUse map[MemoryOwner]uint64

// Total sums the bytes of all owners.
func (m MemoryUse) Total() (total uint64) {
	for _, n := range m {
		total += n
	}
	return total
}

// Add returns the sums of both.
func (m MemoryUse) Add(other MemoryUse) MemoryUse {
	sum := MemoryUse{}
	for _, use := range []MemoryUse{m, other} {
		for owner, n := range use {
			sum[owner] += n
		}
	}
	return sum
}

// Largest lists the owners that have memory, the largest first.
func (m MemoryUse) Largest() []MemoryOwner {
	return slices.SortedFunc(maps.Keys(m), func(a, b MemoryOwner) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
}
