package glsl

import "embed"

//go:embed *.go */*.go */*.glsl
var source embed.FS

// Source returns the source of this package and of the packages below it. Caches of compiled programs include it in
// their keys, because any change of it may change the shaders.
func Source() embed.FS { return source }
