// Package codegen has the source of the packages below it that decide what a compiled program is.
package codegen

import "embed"

//go:embed device/*.go kernel/*.go schedule/*.go glsl/*.go glsl/*/*.go glsl/*/*.glsl
var source embed.FS

// Source returns the source of kernels, schedules and the GLSL generator. Caches of compiled programs include it in
// their keys, because any change of it may change the programs.
func Source() embed.FS { return source }
