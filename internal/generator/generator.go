// Package generator identifies the code generator in this program: [ID] is a hash of its source, and part of every
// cache key.
package generator

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// ID is a hash of the code generator's source, so that a cached program is never used by another version of vkc.
var ID = sync.OnceValue(func() string { return hash(ir.Source(), passes.Source(), codegen.Source()) })

// hash returns a hash of the names and contents of all files except Go tests.
func hash(sources ...fs.FS) string {
	sum := sha256.New()
	for _, src := range sources {
		err := fs.WalkDir(src, ".", func(name string, f fs.DirEntry, err error) error {
			if err != nil || f.IsDir() || strings.HasSuffix(name, "_test.go") {
				return err
			}
			text, err := fs.ReadFile(src, name)
			fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
			return err
		})
		if err != nil {
			panic("generator: " + err.Error()) // the files are in the binary
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
