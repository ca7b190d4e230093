package runtime

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Error is why a call on a program failed. All backends return such errors, so a mistake of the caller has the same
// words on every device, and the error names the graph once.
type Error struct {
	Doing string // the call, such as "run" or "read state of"
	Graph string // the name of the program's graph
	Err   error  // the reason
}

// Error gives the call, the graph and the reason, such as
//
//	run graph "mlp": input "x" is missing, want f32[8]
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Doing, ir.Titled("graph", e.Graph), e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Explain returns err as an [*Error], and nil for nil. If err is an Error already, such as one of a part of the
// program, only its reason stays.
func Explain(doing, graph string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Doing: doing, Graph: graph, Err: Reason(err)}
}

// Reason returns an error without the call and the graph of an [*Error] around it.
func Reason(err error) error {
	for e, ok := err.(*Error); ok && e.Err != nil; e, ok = err.(*Error) {
		err = e.Err
	}
	return err
}

// These are for backends.
var (
	// ErrStates: a run is given states of another program.
	ErrStates = errors.New("RunOptions.States are of another executable: Executable.NewStates of this one makes some")
	// ErrNoStates: there is nothing that a program keeps.
	ErrNoStates = errors.New("the program has no states")
	// ErrStatesClosed: states are used after their Close.
	ErrStatesClosed = fmt.Errorf("the states are %w: close them after their last run", ErrClosed)
	// ErrProgramClosed: an executable is used after its Close.
	ErrProgramClosed = fmt.Errorf("the program is %w", ErrClosed)
	// ErrNothing: there is nothing to upload.
	ErrNothing = errors.New("the tensor is nil")
	// ErrNoReader: there is nothing to upload from.
	ErrNoReader = errors.New("there is nothing to read from")
)
