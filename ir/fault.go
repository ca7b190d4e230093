package ir

import "fmt"

// FaultError means that a run failed because an op has no result for one of its input values, such as NaN for quantize.
// The run returns no outputs. The CPU leaves states unchanged. A Vulkan device has already written the failed run's
// results to them, so the caller must set or reset the states.
type FaultError struct {
	Op          string // such as "quantize"
	First, Last int64  // the fault is in this range of elements of the op's argument, in row-major order
	Why         string // what is wrong with the element
}

// Error names the op, the element and the problem.
func (e *FaultError) Error() string {
	where := fmt.Sprintf("element %d of its argument", e.First)
	if e.Last > e.First {
		where = fmt.Sprintf("one of elements %d to %d of its argument", e.First, e.Last)
	}
	return fmt.Sprintf("%s: %s %s", Printable(e.Op), where, Printable(e.Why))
}
