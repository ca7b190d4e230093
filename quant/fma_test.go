package quant

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// TestNoFusedMultiplyAdd compiles the package for arm64 and checks that there is no fused multiply-add. There the
// compiler fuses wherever the language allows it, and a fused operation would decode to other bits than ggml's.
func TestNoFusedMultiplyAdd(t *testing.T) {
	if testing.Short() {
		t.Skip("cross-compiles")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command in PATH")
	}
	cmd := exec.Command(goTool, "build", "-gcflags=-S", ".")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	listing, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%.2000s", cmd, err, listing)
	}
	if !regexp.MustCompile(`\bFMULS\b`).Match(listing) {
		t.Fatal("the listing holds no multiplication: -S did not print the package")
	}
	for _, line := range regexp.MustCompile(`\(\S+\)\s+FN?M(ADD|SUB)[SD]\b`).FindAll(listing, -1) {
		t.Errorf("fused: %s", line)
	}
}
