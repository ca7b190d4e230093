package vkc

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/codegen/glsl"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/codegen/target"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// Version returns the version of the vkc module, or "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v := info.Main.Version
	for _, dep := range info.Deps {
		if dep.Path == "github.com/vkc-go/vkc" {
			v = dep.Version
		}
	}
	if v == "" || v == "(devel)" {
		return "devel"
	}
	return v
}

// Generator identifies the code generator by a hash of its own source, so
// that a program cached by one state of vkc is never used by another.
var Generator = sync.OnceValue(func() string {
	sum := sha256.New()
	for _, src := range []embed.FS{ir.Source(), kernel.Source(), passes.Source(), target.Source(), glsl.Source()} {
		files, err := src.ReadDir(".")
		if err != nil {
			panic("vkc: " + err.Error()) // the files are in the binary
		}
		for _, f := range files {
			if strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			text, err := src.ReadFile(f.Name())
			if err != nil {
				panic("vkc: " + err.Error())
			}
			fmt.Fprintf(sum, "%s %d\n%s", f.Name(), len(text), text)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
})
