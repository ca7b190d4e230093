package vk

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vkc-go/vkc/runtime"
)

var (
	// ErrUnavailable is wrapped by errors that mean that there is no Vulkan at all: no loader, no driver, or no cgo.
	// The CPU device runs the same programs.
	ErrUnavailable = errors.New("no Vulkan here")
	// ErrNoLoader, ErrNoDriver and ErrNoCgo wrap ErrUnavailable and give the reason: the Vulkan loader cannot be
	// opened, the loader lists no driver, or this program was built without cgo.
	ErrNoLoader = fmt.Errorf("%w: no loader", ErrUnavailable)
	ErrNoDriver = fmt.Errorf("%w: no driver", ErrUnavailable)
	ErrNoCgo    = fmt.Errorf("%w: built without cgo", ErrUnavailable)
	// ErrDeviceLost is wrapped by errors of a device that has crashed, hung or been removed. After that only Close
	// works. Opening the device again may succeed.
	ErrDeviceLost = errors.New("device lost")
	// ErrClosed is wrapped by the errors of using an object after its Close.
	ErrClosed = runtime.ErrClosed
	// ErrTooLarge is wrapped by the errors about sizes above a limit of the device.
	ErrTooLarge = errors.New("exceeds the device's limit")
)

// unavailableError is an error with the given text that wraps ErrUnavailable.
type unavailableError struct {
	text string
	why  error // ErrNoLoader, ErrNoDriver or ErrNoCgo; nil means ErrUnavailable
}

func (e *unavailableError) Error() string { return "vk: " + e.text }

// Unwrap returns the reason, so that errors.Is finds it and ErrUnavailable.
func (e *unavailableError) Unwrap() error {
	if e.why != nil {
		return e.why
	}
	return ErrUnavailable
}

// DriversEnv returns the environment variable that restricts the Vulkan loader to the drivers that it names, in the
// form NAME=VALUE. It returns "" if none is set: the loader then uses the system's drivers.
func DriversEnv() string {
	for _, name := range []string{"VK_DRIVER_FILES", "VK_ICD_FILENAMES"} { // the loader prefers the first
		if value := os.Getenv(name); value != "" {
			return name + "=" + value
		}
	}
	return ""
}

// noDriver returns an error for a loader that lists no driver.
func noDriver(text string) error {
	if only := DriversEnv(); only != "" {
		text += ": the environment has " + only + ", and the loader takes no others"
	}
	return &unavailableError{text + "; or use the CPU device", ErrNoDriver}
}

// Result is a VkResult. Zero is success, negative values are errors.
type Result int32

// The results that this package distinguishes.
const (
	Success                 Result = 0
	NotReady                Result = 1
	Timeout                 Result = 2
	Incomplete              Result = 5
	ErrorOutOfHostMemory    Result = -1
	ErrorOutOfDeviceMemory  Result = -2
	ErrorDeviceLost         Result = -4
	ErrorIncompatibleDriver Result = -9

	resultBadWords Result = -2000000001 // VKC_ERROR_BAD_WORDS
)

// resultNames describes results for people.
var resultNames = map[Result]string{
	Success:                 "success",
	NotReady:                "not ready",
	Timeout:                 "timeout",
	Incomplete:              "incomplete",
	ErrorOutOfHostMemory:    "out of host memory",
	ErrorOutOfDeviceMemory:  "out of device memory",
	-3:                      "initialization failed",
	ErrorDeviceLost:         "device lost",
	-5:                      "memory map failed",
	-6:                      "layer not present",
	-7:                      "extension not present",
	-8:                      "feature not present",
	ErrorIncompatibleDriver: "incompatible driver",
	-10:                     "too many objects",
	-11:                     "format not supported",
	-12:                     "fragmented pool",
	-13:                     "unknown error",
	-1000011001:             "validation failed",
	-1000012000:             "invalid shader",
	-1000069000:             "out of pool memory",
	-1000161000:             "fragmentation",
	resultBadWords:          "malformed command list",
}

// String describes the result. A number that is not in the table is printed as it is.
func (r Result) String() string {
	if name, ok := resultNames[r]; ok {
		return name
	}
	return fmt.Sprintf("result %d", int32(r))
}

// Error is the error of a failed Vulkan call.
type Error struct {
	Op     string // the operation, e.g. "create pipeline softmax_4"
	Result Result
}

func (e *Error) Error() string {
	return fmt.Sprintf("vk: %s: %s (VkResult %d)", e.Op, e.Result, int32(e.Result))
}

// Unwrap makes a lost device recognizable with errors.Is(err, ErrDeviceLost).
func (e *Error) Unwrap() error {
	if e.Result == ErrorDeviceLost {
		return ErrDeviceLost
	}
	return nil
}

// check returns nil for success, or else an [*Error] that names the operation.
func (r Result) check(format string, args ...any) error {
	if r >= 0 {
		return nil
	}
	return &Error{Op: fmt.Sprintf(format, args...), Result: r}
}

// OutOfMemoryError is the error of a failed allocation. It has the sizes of the request and of its heap, in bytes.
type OutOfMemoryError struct {
	What      string // the buffer
	Requested uint64
	Heap      int
	HeapSize  uint64
	InUse     uint64 // used by this device's buffers in that heap
	Available uint64 // the driver's estimate for this process; 0 if it has none
	Limit     uint64 // DeviceOptions.MemoryLimit
	Use       runtime.MemoryUse
	Smaller   string // advice how to make the program smaller; empty if the buffer belongs to no program
	Result    Result
}

// Error describes the request and the use of memory, and says what to do.
func (e *OutOfMemoryError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "out of memory: %s: cannot allocate %s in heap %d (%s in all, %s used by this program", e.What,
		formatBytes(e.Requested), e.Heap, formatBytes(e.HeapSize), formatBytes(e.InUse))
	if e.Available > 0 {
		fmt.Fprintf(&b, ", %s still available", formatBytes(e.Available))
	}
	if e.Limit > 0 {
		fmt.Fprintf(&b, ", limited to %s", formatBytes(e.Limit))
	}
	fmt.Fprintf(&b, "): %s", e.Result)
	separator := "; in use are"
	for _, owner := range e.Use.Largest() {
		fmt.Fprintf(&b, "%s %s %s", separator, formatBytes(e.Use[owner]), owner)
		separator = ","
	}
	if e.Smaller != "" {
		b.WriteString("; " + e.Smaller)
	}
	b.WriteString("; use a smaller model, batch or context, or another device")
	if e.Use[runtime.OwnTensors] > 0 {
		b.WriteString(", or close device tensors")
	}
	if e.Limit > 0 {
		b.WriteString(", or a higher limit")
	}
	return b.String()
}

// formatBytes writes a size with a binary unit and, for large sizes, one decimal.
func formatBytes(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), -1
	for value >= 1024 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
