package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBarWithoutSpeed: a progress bar of bytes shows the counts without a speed, because the speed would include bytes
// from before the bar appeared.
func TestBarWithoutSpeed(t *testing.T) {
	screen, err := os.Create(filepath.Join(t.TempDir(), "screen"))
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	a := &app{stdout: newOutput(screen), stderr: newOutput(screen), terminal: screen}
	bar := a.byteProgress("quantize")
	bar.start = bar.start.Add(-2 * quickWork) // so it appears at once
	for i := range int64(5) {
		bar.report((i+1)<<30, 5<<30)
	}
	text, err := os.ReadFile(screen.Name())
	if err != nil || !strings.Contains(string(text), "quantize, 5.0 GiB of 5.0 GiB") ||
		strings.Contains(string(text), "B/s") || strings.Contains(string(text), "it/s") {
		t.Errorf("%v, %q", err, text)
	}
	bar.end()
}
