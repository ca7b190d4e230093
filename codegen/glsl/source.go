package glsl

import "embed"

//go:embed *.go
var source embed.FS

// Source holds this package's own source. Caches of compiled programs include it in their keys, because any change to
// it may change the shaders.
func Source() embed.FS { return source }
