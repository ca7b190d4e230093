package runtime

import (
	"cmp"
	"maps"
	"slices"
)

// MemoryOwner is what memory of a device is for.
type MemoryOwner string

// The owners of memory.
const (
	OwnWeights MemoryOwner = "weights" // and constants, and what programs made of them when they were loaded
	// OwnHostWeights is weights in host memory, which kernels read there.
	OwnHostWeights MemoryOwner = "weights in host memory"

	OwnStates  MemoryOwner = "states"
	OwnTemps   MemoryOwner = "temporaries"
	OwnPorts   MemoryOwner = "inputs and outputs" // the buffers of programs for them
	OwnTensors MemoryOwner = "device tensors"     // kept outputs and what was uploaded
	OwnStaging MemoryOwner = "staging"            // host memory on the way to and from the device
	OwnOther   MemoryOwner = "other buffers"
)

// MemoryUse is how many bytes each owner has.
type MemoryUse map[MemoryOwner]uint64

// Total is the bytes of all owners.
func (m MemoryUse) Total() (total uint64) {
	for _, n := range m {
		total += n
	}
	return total
}

// Largest lists the owners that have memory, the one with the most first.
func (m MemoryUse) Largest() []MemoryOwner {
	return slices.SortedFunc(maps.Keys(m), func(a, b MemoryOwner) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
}
