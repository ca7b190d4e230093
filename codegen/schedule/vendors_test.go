package schedule

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

// ofVendors reports whether a file may depend on the vendor: files named after a class, and in package device the list
// of classes and the facts about drivers.
func ofVendors(path string) bool {
	if name := filepath.Base(path); name == "vendors.go" || name == "drivers.go" {
		return true
	}
	for class := range byClass {
		if strings.HasPrefix(path, class) {
			return true
		}
	}
	return strings.HasPrefix(path, "generic")
}

// vendorWords name vendors, their devices and their drivers.
var vendorWords = []string{"nvidia", "geforce", "h100", "h200", "a100", "hopper", "amd", "radv", "rdna",
	"rdna3", "intel", "xe",
	"arm", "mali", "apple", "qcom", "qualcomm", "adreno", "img", "powervr", "google", "swiftshader", "mesa", "lavapipe", "llvmpipe"}

var nameParts = regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)

// TestVendorsHaveTheirFiles: decisions for a vendor's devices are in the vendor's file, as fields that all classes
// have. Comments may name devices.
func TestVendorsHaveTheirFiles(t *testing.T) {
	for _, dir := range []string{".", "../device", "../glsl", "../../passes", "../../passes/plan"} {
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
							"(codegen/schedule/heuristics.go)"+
							" and set it in the vendor's file, such as codegen/schedule/nvidia.go",
							files.Position(pos), word)
					}
				}
			}
		}
	}
}
