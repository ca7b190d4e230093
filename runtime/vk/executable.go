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

// Executable is a program on a device. Its weights are uploaded, its kernels compiled, and its commands recorded once;
// every run replays them, for any values of the symbols. Its methods may be called concurrently. Runs are serialized.
type Executable struct {
	*runtime.Signature
	recorder          // the program's memory and recordings
	labels   []string // names of outputs in errors, by port
	signed   []ir.Dim // extents that may be negative for some symbol values
	closed   atomic.Bool

	// token is a lock: its holder may use the fields below and the memory that runs share, and close the program.
	// Programs that share states share a token.
	token    chan struct{}
	inFlight inFlight
	// Copies of synchronous runs.
	copiesIn, copiesOut copies
}

var _ runtime.Executable = (*Executable)(nil)

// Stats describes the resources of a loaded program.
type Stats struct {
	// Bytes of device memory by kind of buffer. Temporaries share one arena, which counts once.
	Bytes map[kernel.BufferKind]int64
	// TempBytes is the size of the temporaries without sharing.
	TempBytes int64
	// StagingBytes is host memory for copies of inputs and outputs. It is 0 if the host can map the program's own
	// buffers.
	StagingBytes int64
	Steps        int // of a run
	Persistent   int // persistent kernels, each of which runs several steps
	NoRoom       int // persistent kernels that were rejected: their workgroups cannot all be resident
	Prepared     int // steps that ran at load
	Pipelines    int
	// Recordings counts the recordings of the program's steps: one, another for profiles, and another for runs with
	// device tensors. If trip counts of loops depend on symbols, each combination of trip counts has its own
	// recordings.
	Recordings int
	// CacheErr is the error of saving the pipeline cache, or nil.
	CacheErr error
}

// errNoProgram is returned by the methods of a nil Executable.
var errNoProgram = errors.New("there is no program: Device.Load makes one, unless it returns an error")

// Device names the device.
func (e *Executable) Device() string {
	if e == nil || e.device == nil {
		return "no device"
	}
	return e.device.describe()
}

// Stats describes the program's resources.
func (e *Executable) Stats() Stats {
	if e == nil {
		return Stats{}
	}
	s := e.stats
	s.Recordings = int(e.made.Load())
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

// lock acquires the program's lock and enters the device. unlock undoes both.
func (e *Executable) lock(ctx context.Context) error {
	if e == nil || e.token == nil {
		return errNoProgram
	}
	select {
	case <-e.token:
	default:
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

// enter keeps the device open, because closing it would free the program's memory. The device's leave ends that.
func (e *Executable) enter() error {
	if e == nil || e.token == nil {
		return errNoProgram
	}
	if e.closed.Load() {
		return runtime.ErrProgramClosed
	}
	return e.device.enter("use the program")
}

func (e *Executable) unlock() {
	e.device.leave()
	e.token <- struct{}{}
}
