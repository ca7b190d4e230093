//go:build !amd64 && !arm64

package fast

// assemblies returns nothing: there is no assembly for these processors.
func assemblies() []*assembly { return nil }
