package passes

import "embed"

//go:embed *.go analysis plan rewrite lower rules layout
var source embed.FS

// Source holds the source of this package and of the packages of its parts. It is part of the key of cached programs,
// because any change of the source may change the compiled programs.
func Source() embed.FS { return source }
