package ir

import "fmt"

// FaultError says that a run failed because an op has no result for a value that it met, such as NaN where blocks
// are made. Nothing is returned then. What becomes of states depends on the device: the reference leaves them as they
// were, a device has written what the run made of them, and they are to be written or reset.
type FaultError struct {
	Op          string // such as "quantize"
	First, Last int64  // one of these elements of the op's argument, counted through all axes, is at fault
	Why         string // what is wrong with it
}

// Error says which op, which element, and what is wrong.
func (e *FaultError) Error() string {
	where := fmt.Sprintf("element %d of its argument", e.First)
	if e.Last > e.First {
		where = fmt.Sprintf("one of elements %d to %d of its argument", e.First, e.Last)
	}
	return fmt.Sprintf("%s: %s %s", Printable(e.Op), where, Printable(e.Why))
}
