package kernel

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Fault makes a run fail because an op has no result for some value. A kernel cannot stop a run. It records the fault
// in a word, and the host checks the word after the run ([Program.Faults]).
//
// The word is 0 if there is no fault. Otherwise it is the complement of the smallest Index with a fault, so that
// kernels can update it by an atomic maximum.
type Fault struct {
	Bind  int   // of the word
	Index Index // identifies the point of the parallel axes: the number of a block
	// Most, for FamilyQuantize, is the largest allowed magnitude of an element. NaN is a fault as well.
	Most float32
}

// FaultPort is a word in which a step may record a fault, and the fault's meaning.
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

// checkFaults refuses ports that are no words that steps write.
func (p *Program) checkFaults() error {
	seen := map[int]bool{}
	for i, f := range p.Faults {
		if f.Buffer < 0 || f.Buffer >= len(p.Buffers) || p.Buffers[f.Buffer].Kind != BufFault || seen[f.Buffer] {
			return fmt.Errorf("fault %d: buffer %d is no word for it alone", i, f.Buffer)
		}
		if f.Elems < 1 || f.Elems > 1<<20 {
			return fmt.Errorf("fault %d: %d elements", i, f.Elems)
		}
		seen[f.Buffer] = true
	}
	return nil
}
