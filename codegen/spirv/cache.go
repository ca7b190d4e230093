package spirv

import (
	"path/filepath"

	"github.com/vkc-go/vkc/internal/cachefile"
)

// OpenCache returns the cache of compiled shaders under cacheDir, which is Options.CacheDir. It creates nothing; a
// missing directory is an empty cache.
func OpenCache(cacheDir string) cachefile.Dir {
	return cachefile.Dir{
		Path: filepath.Join(cacheDir, "spirv"), Suffix: ".spve",
		Magic: [8]byte([]byte("VKCSPIRV")), Format: 2, MaxPayload: maxOutput, Check: CheckModule,
	}
}
