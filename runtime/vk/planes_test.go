package vk

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/mmap"
	"github.com/vkc-go/vkc/ir"
)

// TestTruncatedPlanes truncates a file of blocks while it is converted to planes. Each goroutine must notice this.
// Without a guard the test binary would crash.
func TestTruncatedPlanes(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("whether a file in use can be cut short depends on the system")
	}
	const blocks = 1 << 16
	path := filepath.Join(t.TempDir(), "blocks")
	if err := os.WriteFile(path, make([]byte, blocks*ir.Q8_0.BlockBytes()), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := mmap.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	plane := kernel.PlanesOf(ir.Q8_0)[0]
	dst := make([]byte, blocks*plane.Bytes)
	if err := packPlane(dst, ir.Q8_0, plane, m.Bytes(), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	err = packPlane(dst, ir.Q8_0, plane, m.Bytes(), 0)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v; want an error that names %s", err, path)
	}
}
