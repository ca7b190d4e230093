// Command vkclint checks the rules of internal/lint: go vet -vettool="$(go tool -n vkclint)" ./...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/vkc-go/vkc/internal/lint"
)

func main() { unitchecker.Main(lint.Analyzers...) }
