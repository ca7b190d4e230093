// Package drivers tests with GPU drivers for hardware that is not present: Mesa's drivers for AMD, Qualcomm, Apple and
// NVIDIA, which report their devices and compile for them, and two drivers that run on the CPU. `make drivers` installs
// them in .tools/drivers; without them the tests skip.
//
// Each driver runs in a new process of the test program, with the driver's own loader and C library and with limits on
// time and memory, so that a crash of the driver affects only that process.
//
// golden/drivers has a file for some drivers, with one kernel of each kind and its cost. Each file names the driver
// version that wrote it. Other versions must satisfy the rules (no failure, no spills) and may have other costs. `go
// test ./internal/drivers -update-golden` rewrites the files. With -all every kernel is compiled on every driver and
// checked against the rules.
package drivers
