// Package gomlx is the backend "vkc" of GoMLX (github.com/gomlx/gomlx), by which its models are trained and run on any
// Vulkan device, and on the processor where there is none. Import it for its side effect:
//
//	import _ "github.com/vkc-go/vkc/gomlx"
//
// and set GOMLX_BACKEND=vkc, or vkc:DEVICE with what vkc.OpenDevice takes, such as vkc:cpu or vkc:nvidia.
//
// # How a computation becomes a program
//
// A [Function] keeps what is called on it as operations, each with a function that writes it with package frontend. Each is
// built by itself once, as soon as it is added, so that one which vkc cannot do fails there, as GoMLX expects. When the
// builder compiles, the operations that results need become one graph and one program. Functions that are called, and
// comparators of sorts, are written into the caller's graph. A loop and a branch are run by the host: what is before and after
// one is a program each, and values stay on the device between them.
//
// A computation with dynamic axes is built for the extents that a call brings, and kept for the next call with them.
package gomlx
