// Package generator identifies the code generator in this program: [ID] is a hash of its source, and part of every
// cache key.
package generator

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// ID is a hash of the code generator's source, so that a cached program is never used by another version of vkc.
var ID = sync.OnceValue(func() string {
	sum := sha256.New()
	for _, src := range []embed.FS{
		ir.Source(), kernel.Source(), passes.Source(), device.Source(), schedule.Source(), glsl.Source(),
	} {
		err := fs.WalkDir(src, ".", func(name string, f fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := src.ReadFile(name)
			fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
			return err
		})
		if err != nil {
			panic("generator: " + err.Error()) // the files are in the binary
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
})
