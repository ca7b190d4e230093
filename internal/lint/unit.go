package lint

import (
	"encoding/json"
	"os"

	"golang.org/x/tools/go/analysis"
)

// ForUnit returns the analyzers that must run on a unit of go vet: a package that a JSON file describes.
//
// For a package to check, these are all analyzers in the list. For a package that is only imported, go vet needs only
// the facts that the analyzers of importing packages read. So these are the analyzers that export facts, in the list or
// required by it. Package unitchecker would also run analyzers that only read facts, which takes half of the total
// time.
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

// exporting returns the analyzers that export facts, in the list or required by it. It skips the analyzers in seen, and
// adds those that it visits.
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
