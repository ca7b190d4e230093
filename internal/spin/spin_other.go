//go:build !amd64 && !arm64

package spin

// Pause does nothing, because there is no instruction for it here.
func Pause() {}
