package vk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// Executable is a program loaded on a device. Load uploads its weights, compiles its kernels and records its commands.
// Every run replays the recorded commands, for any values of the symbols. Its methods may be called concurrently. Runs
// are serialized.
type Executable struct {
	*runtime.Signature
	recorder          // the program's memory and recordings
	labels   []string // names of outputs in errors, by port
	signed   []ir.Dim // extents that may be negative for some symbol values
	closed   atomic.Bool

	// token is a lock with a deadline: it has an element while the program is unlocked. Its holder may use the fields
	// below and the memory that all runs use, and may close the program. Programs that share states have the same
	// token.
	token    chan struct{}
	inFlight inFlight
}

var _ runtime.Executable = (*Executable)(nil)

// Stats describes the resources of a loaded program.
type Stats struct {
	// Bytes has the bytes of device memory by kind of buffer. Temporaries share one arena, which counts once.
	Bytes map[kernel.BufferKind]int64
	// StagingBytes is host memory for copies of inputs and outputs. It is 0 if the host can map the program's own
	// buffers.
	StagingBytes int64
	Steps        int // steps of a run
	Persistent   int // persistent kernels, each of which runs several steps
	NoRoom       int // persistent kernels that are not used because their workgroups cannot all be resident
	Prepared     int // steps that ran at load
	Pipelines    int
	// Recordings counts the recordings of the program's steps: one, another for profiles, and others in which kernels
	// access device tensors directly. If trip counts of loops depend on symbols, each combination of trip counts has
	// its own recordings.
	Recordings int
	// CacheErr is the error of saving the pipeline cache, or nil.
	CacheErr error
}

// errNoProgram is the error of methods of a nil Executable.
var errNoProgram = errors.New("there is no program: Device.Load makes one, unless it returns an error")

// Device returns the name of the device, for people.
func (e *Executable) Device() string {
	if e == nil || e.device == nil {
		return "no device"
	}
	return e.device.describe()
}

// Stats returns statistics of the program's resources.
func (e *Executable) Stats() Stats {
	if e == nil {
		return Stats{}
	}
	s := e.stats
	s.Recordings = int(e.recordingCount.Load())
	return s
}

// Close waits for a run in progress and frees the program once the device has finished with it. Closing twice is fine.
func (e *Executable) Close() error {
	if e == nil || e.token == nil {
		return nil
	}
	<-e.token
	defer func() { e.token <- struct{}{} }()
	e.closed.Store(true)
	return e.resources.Close()
}

// Asynchronous returns true: see [runtime.Asynchronous].
func (e *Executable) Asynchronous() bool { return true }

// lock takes the program's lock and keeps the device open. unlock undoes both.
func (e *Executable) lock(ctx context.Context) error {
	if e == nil || e.token == nil {
		return errNoProgram
	}
	select {
	case <-e.token:
	default: // only a caller that must wait gets this error, even if ctx has ended already
		select {
		case <-e.token:
		case <-ctx.Done():
			return fmt.Errorf("another run is under way: %w", ctx.Err())
		}
	}
	err := e.enter()
	if err != nil {
		e.token <- struct{}{}
	}
	return err
}

// enter keeps the device open until e.device.leave is called, because closing it would free the program's memory. It
// returns an error if the program or the device is closed.
func (e *Executable) enter() error {
	if e == nil || e.token == nil {
		return errNoProgram
	}
	if e.closed.Load() {
		return runtime.ErrProgramClosed
	}
	return e.device.enter("use the program")
}

// unlock undoes lock.
func (e *Executable) unlock() {
	e.device.leave()
	e.token <- struct{}{}
}
