package target

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ofVendors reports whether a file may know of vendors: those of a class, which begin with its name, the list of
// them, and what is known of drivers that no class is for.
func ofVendors(path string) bool {
	return path == "vendors.go" || path == "google.go" ||
		slices.ContainsFunc(classes, func(c class) bool { return strings.HasPrefix(path, c.name) })
}

// vendorWords name vendors, their devices and their drivers.
var vendorWords = []string{"nvidia", "geforce", "h100", "h200", "a100", "hopper", "amd", "radv", "rdna",
	"rdna3", "intel", "xe",
	"arm", "mali", "apple", "qcom", "qualcomm", "adreno", "img", "powervr", "google", "swiftshader", "mesa", "lavapipe", "llvmpipe"}

var nameParts = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// TestVendorsHaveTheirFiles: what is decided for one vendor's devices stands in that
// vendor's file, as a field that all classes have; comments may name devices.
func TestVendorsHaveTheirFiles(t *testing.T) {
	for _, dir := range []string{".", "../glsl", "../../passes", "../../passes/plan"} {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %d Go files, %v", dir, len(paths), err)
		}
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") || ofVendors(path) {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files := token.NewFileSet()
			var s scanner.Scanner
			s.Init(files.AddFile(path, -1, len(text)), text, nil, 0)
			for pos, tok, lit := s.Scan(); tok != token.EOF; pos, tok, lit = s.Scan() {
				for _, word := range nameParts.FindAllString(lit, -1) {
					if slices.Contains(vendorWords, strings.ToLower(word)) {
						t.Errorf("%s: %s names a vendor or its device; make it a field of heuristics or machine "+
							"(codegen/target/heuristics.go, machine.go)"+
							" and set it in the vendor's file, such as codegen/target/nvidia.go",
							files.Position(pos), word)
					}
				}
			}
		}
	}
}
