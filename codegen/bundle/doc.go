// Package bundle reads and writes .vkb files: a compiled program in one file.
//
// A bundle has everything that a device needs to run the program: the program's plan, the SPIR-V of its shaders and,
// optionally, its weights. It also has the source graph, so that the program can be checked against the reference or
// run without a device. docs/BUNDLE.md describes the format.
//
//	err := bundle.Write("model.vkb", &bundle.Contents{Graph: g, Program: p, SPIRV: modules})
//	f, err := bundle.Open("model.vkb") // f.Program(), f.SPIRV(), f.Weights()
//
// Start from [Contents], the input of a new bundle, and [File], an open bundle.
//
// The encoding is canonical: equal contents give equal bytes. Reading is strict. Open verifies the checksums of
// everything except the weights. Weights are memory-mapped and verified at first use, so a bundle of many gigabytes
// opens in milliseconds, and damage is still detected.
package bundle
