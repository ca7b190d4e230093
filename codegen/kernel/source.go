package kernel

import "embed"

//go:embed *.go
var source embed.FS

// Source returns this package's source. Caches of compiled programs are keyed by it, because any change may alter the
// results.
func Source() embed.FS { return source }
