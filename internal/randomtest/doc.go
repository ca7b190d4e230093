// Package randomtest holds tests that run random graphs in ways that users run graphs, such as in a lower precision.
// The graphs are from package graphgen. Each test compares the CPU fast path and, with fewer graphs, a Vulkan device
// with the reference. Flags choose other numbers, for hours on another machine:
//
//	go test -c ./internal/randomtest
//	./randomtest.test -test.run 'TestRandomPrecisions/cpu' -graphs 100000 -seed 1000000 -test.timeout 0
package randomtest
