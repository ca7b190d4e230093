// Package bundle reads and writes .vkb files: a compiled program in one file.
//
// A bundle holds all that it takes to run a program on a device it was compiled
// for: the program's plan, the SPIR-V of its shaders and, if wanted, its
// weights. It also holds the graph the program was compiled from, so that the
// program can be checked against the reference or run without a device. The
// format is described in docs/BUNDLE.md.
//
//	err := bundle.Write("model.vkb", &bundle.Contents{Graph: g, Program: p, SPIRV: modules})
//	f, err := bundle.Open("model.vkb") // f.Program(), f.SPIRV(), f.Weights()
//
// Start from [Contents], what goes in, and [File], an open bundle.
//
// A bundle has one written form: equal contents give equal bytes. Reading is
// strict. All but the weights is checksummed and checked when the file is
// opened; weights are memory-mapped and checked when they are first used, so
// that a bundle of many gigabytes opens in milliseconds and damage is found all
// the same.
package bundle
