// Package gomlx is the backend "vkc" of GoMLX (github.com/gomlx/gomlx), by which its models are trained and run on
// any Vulkan device, and on the processor where there is none. Import it for its side effect:
//
//	import _ "github.com/vkc-go/vkc/gomlx"
//
// and set GOMLX_BACKEND=vkc, or vkc:DEVICE with what vkc.OpenDevice takes, such as vkc:cpu or vkc:nvidia.
//
// # How a computation becomes a program
//
// A [Function] keeps what is called on it as operations, each with a function that writes it with package frontend.
// Each is built by itself once, as soon as it is added, so that one which vkc cannot do fails there, as GoMLX
// expects. When the builder compiles, the operations that results need become one graph, and one program at the first
// call. Functions that are called, comparators of sorts and branches are written into the caller's graph. A loop, of
// which nobody knows how often it goes, is run by the host, many trips at a time: what is before and after it is a
// program each, and values stay on the device between them.
//
// A computation with dynamic axes is built with symbols for them, bounded by the next power of two of what a call
// brings, and kept for all calls within these bounds. Where that cannot be, it is built for the extents of each call.
package gomlx
