// Package gomlx is the backend "vkc" of GoMLX (github.com/gomlx/gomlx). It trains and runs GoMLX models on any Vulkan
// device, or on the CPU if there is none. Import it for its side effect:
//
//	import _ "github.com/vkc-go/vkc/gomlx"
//
// and set GOMLX_BACKEND=vkc, or vkc:DEVICE with a device name for vkc.OpenDevice, such as vkc:cpu or vkc:nvidia.
//
// # How a computation becomes a program
//
// A [Function] records the method calls on it as operations. Each operation has a function that builds it with package
// frontend. Adding an operation builds it once separately, so that an unsupported operation fails right there, as GoMLX
// expects. At the first call, the operations that the results need become one graph and one program. Called functions,
// comparators of sorts and branches are inlined into the caller's graph. The host runs loops with an unknown trip
// count, many trips at a time: the operations before and after a loop are separate programs, and values stay on the
// device between them.
//
// A computation with dynamic axes is compiled with symbols, bounded by the next power of two above the call's extents.
// The program serves all calls within the bounds. If symbols are not possible, it is compiled for the extents of each
// call.
package gomlx
