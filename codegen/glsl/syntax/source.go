package syntax

import "embed"

//go:embed *.go
var source embed.FS

// Source holds this package's own source; see package glsl.
func Source() embed.FS { return source }
