// Command vkclint checks what go vet does and the rules of internal/lint:
//
//	go vet -vettool="$(go tool -n vkclint)" ./...
//
// One program has both, so that packages are read once.
package main

import (
	"slices"

	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/vkc-go/vkc/internal/lint"
)

func main() { unitchecker.Main(slices.Concat(vet.Suite, lint.Analyzers)...) }
