package device

import "embed"

//go:embed *.go
var source embed.FS

// Source holds this package's own source. Caches of compiled programs are
// keyed by it, since what the package produces may change whenever it does.
func Source() embed.FS { return source }
