package kernel

import "github.com/vkc-go/vkc/ir"

// Fault makes a run fail because an op has no result for some value, such as quantizing NaN. A kernel cannot stop a
// run. So it records the fault in a word of memory, and the host checks the word after the run ([Program.Faults]).
//
// The word is 0 if there is no fault. Otherwise it is the bitwise complement of the smallest Index with a fault. So
// kernels can update it by an atomic maximum.
type Fault struct {
	Bind  int   // the binding of the word
	Index Index // the number of the point (for FamilyQuantize, of the block)
	// Most, for FamilyQuantize, is the largest allowed magnitude of an element. NaN is a fault as well.
	Most float32
}

// FaultPort is a word that a step may record a fault in, with the meaning of that fault.
type FaultPort struct {
	Buffer int    `json:"buffer"`
	Op     string `json:"op"`  // the failing op, such as "quantize"
	Why    string `json:"why"` // the reason, as the end of a sentence
	// Elems is the number of argument elements per index.
	Elems int64 `json:"elems"`
}

// Check returns the error that the word records, or nil.
func (f FaultPort) Check(word uint32) error {
	if word == 0 {
		return nil
	}
	first := int64(^word) * f.Elems
	return &ir.FaultError{Op: f.Op, First: first, Last: first + f.Elems - 1, Why: f.Why}
}

// checkFaults requires that each fault port has a fault word of its own.
func (c *checker) checkFaults() {
	seen := map[int]bool{}
	for i, f := range c.Faults {
		c.require(f.Buffer >= 0 && f.Buffer < len(c.Buffers) && c.Buffers[f.Buffer].Kind == BufFault && !seen[f.Buffer],
			"fault %d: buffer %d is not a word for it alone", i, f.Buffer)
		c.require(f.Elems >= 1 && f.Elems <= 1<<20, "fault %d: %d elements", i, f.Elems)
		seen[f.Buffer] = true
	}
}
