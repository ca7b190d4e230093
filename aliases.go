package vkc

import "github.com/vkc-go/vkc/runtime"

// The comments below repeat the types of package runtime:
// go test . -run GoldenAliases -update-golden writes them.

// RunOptions adjust a run.
//
//	Symbols gives values of symbols by name. A symbol that is the extent of an input's axis may be left out.
//	Symbols map[string]int64
//	Profile requests Result.Profile. The run is then slower.
//	Profile bool
//	Into gives memory for outputs, by name. The run writes the output to that tensor. The tensor must have the
//	output's dtype and its dims in this run. Result.Outputs then refers to the same tensor. Other outputs get new
//	memory. If the run fails, the tensor's contents are undefined.
//	Into map[string]*ir.Data
//	Inputs gives inputs that are on the device already, by name. Do not pass those to Run as well. Runs only read the
//	tensors, so one tensor may serve many inputs of many runs.
//	Inputs map[string]*DeviceTensor
//	Keep names outputs that stay on the device. The run returns them in Result.Kept, not in Result.Outputs. The
//	caller closes them.
//
//	A run is asynchronous if it keeps all outputs, the device is a Vulkan device, and the host passes at most 64 MiB
//	of inputs. Run then returns as soon as the run is queued, and later runs may take its outputs as inputs. Reading
//	a tensor waits for the run that computes it; reading up to 4 KiB waits for no other run. A later call reports any
//	error of the device.
//	Keep []string
//	States, if set, replaces the program's own states in this run. A server keeps one set per conversation, for
//	example. Executable.NewStates of the same executable makes a set.
//	States States
//	Priority orders the queue of runs that vkc's Executable.Start has started and that have not begun. The run with
//	the highest priority begins first. Of runs with equal priorities, the one that was started first begins first.
//	Priority int
//	More says that the caller will start another run on this device right after this one. An asynchronous run (see
//	Keep) may then be submitted together with the next one, so that the device is not idle between the two. Reading a
//	tensor that the run computes submits it too.
//	More bool
type RunOptions = runtime.RunOptions

// Result is the result of a run.
//
//	Outputs map[string]*ir.Data
//	Kept    map[string]*DeviceTensor // the outputs in RunOptions.Keep; nil if there are none
//	Profile *Profile                 // nil unless asked for
//	func (r *Result) CloseKept() error
type Result = runtime.Result

// DeviceTensor is a tensor in device memory.
//
//	func (t *DeviceTensor) DType() ir.DType
//	func (t *DeviceTensor) Dims() []int
//	func (t *DeviceTensor) Size() int64
//	func (t *DeviceTensor) Device() string
//	func (t *DeviceTensor) String() string
//	func (t *DeviceTensor) ReadInto(ctx context.Context, d *ir.Data) error
//	func (t *DeviceTensor) Read(ctx context.Context) (*ir.Data, error)
//	func (t *DeviceTensor) ReadRows(ctx context.Context, first, count int) (*ir.Data, error)
//	func (t *DeviceTensor) ReadAt(p []byte, offset int64) (int, error)
//	func (t *DeviceTensor) ReadBytes(ctx context.Context, p []byte, offset int64) error
//	func (t *DeviceTensor) CopyTo(ctx context.Context, program Executable) (*DeviceTensor, error)
//	func (t *DeviceTensor) Close() error
type DeviceTensor = runtime.DeviceTensor

// Traffic counts the bytes copied between the caller's memory and a device.
//
//	In counts weights, inputs, and writes of states and tensors. Out counts outputs that do not stay on the device,
//	and reads of states and tensors.
//	In, Out uint64
//	func (t Traffic) Add(other Traffic) Traffic
type Traffic = runtime.Traffic

// States are values for all states of a program, which can be passed to runs; see [Executable.NewStates].
//
//	Read returns a copy of a state's value.
//	Read(name string) (*ir.Data, error)
//	Write copies d to a state.
//	Write(name string, d *ir.Data) error
//	Reset sets all states to their values after loading.
//	Reset() error
//	Close() error
type States = runtime.States

// Progress is the progress of compiling and loading.
//
//	Stage Stage
//	Done of Total units are done. The unit is a byte for weights, and a shader or kernel for the other stages. All
//	reports of a stage have the same Total.
//	Done, Total int64
type Progress = runtime.Progress
