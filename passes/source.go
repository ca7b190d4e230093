package passes

import "embed"

//go:embed *.go analysis plan rewrite lower rules layout
var source embed.FS

// Source returns the Go source of this package and the packages of the passes. The key of a cached program includes its
// hash, because any change of the source may change the compiled programs.
func Source() embed.FS { return source }
