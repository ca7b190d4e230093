// Package generator identifies the code generator in this program: [ID] is a hash of its source, and part of every
// cache key.
package generator

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/schedule"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
	"github.com/vkc-go/vkc/passes/plan"
)

// ID is a hash of the code generator's source, so that a cached program is never used by another version of vkc.
var ID = sync.OnceValue(func() string {
	sum := sha256.New()
	for _, src := range []embed.FS{
		ir.Source(), kernel.Source(), passes.Source(), plan.Source(), device.Source(), schedule.Source(), glsl.Source(),
		syntax.Source(),
	} {
		files, err := src.ReadDir(".")
		if err != nil {
			panic("generator: " + err.Error()) // the files are in the binary
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			text, err := src.ReadFile(f.Name())
			if err != nil {
				panic("generator: " + err.Error())
			}
			fmt.Fprintf(sum, "%s %d\n%s", f.Name(), len(text), text)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
})
