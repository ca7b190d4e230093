package lint

import (
	"encoding/json"
	"os"

	"golang.org/x/tools/go/analysis"
)

// ForUnit returns those of the analyzers that have work in a unit of go vet, a package that a file of JSON describes.
//
// Of a package that is only imported, go vet wants no more than facts, which the analyzers of the importing packages
// read. For it these are the analyzers that export facts, of the list and of all that the list requires. Package
// unitchecker would also run analyzers that only read facts: that takes half of the time of all analyzers.
func ForUnit(file string, list []*analysis.Analyzer) []*analysis.Analyzer {
	text, err := os.ReadFile(file)
	if err != nil {
		return list // package unitchecker says what is wrong with its arguments
	}
	var unit struct{ VetxOnly bool }
	if json.Unmarshal(text, &unit) != nil || !unit.VetxOnly {
		return list
	}
	return exporting(list, map[*analysis.Analyzer]bool{})
}

// exporting returns the analyzers that export facts, of the list and of all that the list requires.
func exporting(list []*analysis.Analyzer, seen map[*analysis.Analyzer]bool) (found []*analysis.Analyzer) {
	for _, a := range list {
		if seen[a] {
			continue
		}
		seen[a] = true
		if len(a.FactTypes) > 0 {
			found = append(found, a)
		}
		found = append(found, exporting(a.Requires, seen)...)
	}
	return found
}
