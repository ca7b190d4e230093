// Package drivers has tests on the drivers of GPUs that are not here: Mesa's of AMD, Qualcomm, Apple and NVIDIA, which
// report their devices and compile for them, and two that run on the processor. `make drivers` installs them in
// .tools/drivers; where they are not, the tests skip.
//
// The test program is started again for each driver, through that driver's own loader and C library, with limits on
// time and memory: what a driver does to its process ends there.
//
// golden/drivers has a file for some drivers: one kernel of each kind, and what it costs. Each file names the version
// of the driver that wrote it; another version is held to the rules (nothing fails, nothing spills), and not to the
// numbers. `go test ./internal/drivers -update-golden` writes the files anew. With -all every kernel is compiled on
// every driver, and held to the rules.
package drivers
