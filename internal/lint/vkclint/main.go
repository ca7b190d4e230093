// Command vkclint checks what go vet and staticcheck do, and the rules of internal/lint:
//
//	go vet -vettool="$(go tool -n vkclint)" ./...
//
// One program has all of them, so that packages are read once.
package main

import (
	"os"
	"slices"

	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"

	"github.com/vkc-go/vkc/internal/lint"
)

func main() {
	list := slices.Concat(vet.Suite, lint.Analyzers)
	for _, a := range slices.Concat(simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers) {
		if !a.Doc.NonDefault {
			list = append(list, a.Analyzer)
		}
	}
	unitchecker.Main(lint.ForUnit(os.Args[len(os.Args)-1], list)...)
}
