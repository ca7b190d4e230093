package device

import "embed"

//go:embed *.go
var source embed.FS

// Source returns this package's Go source. Caches of compiled programs include it in their keys, because any change of
// it may change the programs.
func Source() embed.FS { return source }
