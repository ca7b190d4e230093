package quant

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/vkc-go/vkc/internal/pairs"
)

// TestNoFusedMultiplyAdd compiles the package for arm64 and checks that there is no fused multiply-add. There the
// compiler fuses wherever the language allows it, and a fused operation would decode to other bits than ggml's. By
// default it is skipped, because it compiles the standard library for arm64, and rule vkcrounds (internal/lint) finds
// the same in the source.
func TestNoFusedMultiplyAdd(t *testing.T) {
	if os.Getenv(pairs.Env) != "all" {
		t.Skip("cross-compiles; run with " + pairs.Env + "=all")
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
