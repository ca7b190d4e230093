package kernel

import (
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Fault says when a kernel makes its run fail, because its op has no result for a value. A kernel cannot stop a run:
// it notes the fault in a word of its own, which the host looks at when the run is done ([Program.Faults]).
//
// The word is 0 where all is well. Else it is the complement of the least Index at which there is a fault, so that
// kernels find it by an atomic maximum.
type Fault struct {
	Bind  int   // of the word
	Index Index // of what a point of the parallel axes computes: the number of a block
	// Most, of FamilyQuantize, is the largest magnitude that an element of a block may have. NaN is a fault as well.
	Most float32
}

// FaultPort is a word in which a step may note a fault, and what that means to a reader.
type FaultPort struct {
	Buffer int    `json:"buffer"`
	Op     string `json:"op"`  // the node at fault, as the graph's text has it
	Why    string `json:"why"` // what is wrong with an element, as the end of a sentence
	// Elems is how many elements of the op's argument one index stands for.
	Elems int64 `json:"elems"`
}

// Check says what a word that the program left means, or nil where all is well.
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
