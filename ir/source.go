package ir

import "embed"

//go:embed *.go
var source embed.FS

// Source holds the source of this package. It is part of the key of cached programs, because any change of the source
// may change the compiled programs.
func Source() embed.FS { return source }
