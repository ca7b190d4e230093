package runtime

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// Error is the error of a failed call on a program. All backends return it, so that a mistake of the caller is reported
// in the same words on every device, and the graph is named once.
type Error struct {
	Doing string // the call, such as "run" or "read state of"
	Graph string // the name of the program's graph
	Err   error  // the reason
}

// Error returns the call, the graph and the reason, such as
//
//	run graph "mlp": input "x" is missing, want f32[8]
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Doing, ir.Titled("graph", e.Graph), e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Explain wraps err in an [*Error] with the call and the graph. It returns nil if err is nil. If err is an [*Error]
// already, for example from a part of the program, the new error has its reason, and not its call and graph.
func Explain(doing, graph string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Doing: doing, Graph: graph, Err: Reason(err)}
}

// Reason unwraps an [*Error]: it returns the reason without the call and the graph. It returns other errors unchanged.
func Reason(err error) error {
	for e, ok := err.(*Error); ok && e.Err != nil; e, ok = err.(*Error) {
		err = e.Err
	}
	return err
}

// The backends return these errors.
var (
	// ErrStates: a run is given states of another program.
	ErrStates = errors.New("RunOptions.States are of another executable: Executable.NewStates of this one makes some")
	// ErrNoStates: a call needs states, and the program has none.
	ErrNoStates = errors.New("the program has no states")
	// ErrStatesClosed: states are used after their Close.
	ErrStatesClosed = fmt.Errorf("the states are %w: close them after their last run", ErrClosed)
	// ErrProgramClosed: an executable is used after its Close.
	ErrProgramClosed = fmt.Errorf("the program is %w", ErrClosed)
	// ErrNothing: the tensor to upload is nil.
	ErrNothing = errors.New("the tensor is nil")
	// ErrNoReader: the reader to upload from is nil.
	ErrNoReader = errors.New("there is nothing to read from")
)
