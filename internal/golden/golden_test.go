package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, tt := range []struct{ want, have, diff string }{
		{"a\nb\nc\n", "a\nb\nc\n", ""},
		{"a\nb\nc\n", "a\nx\nc\n", "-2: b\n+2: x\n"},
		{"a\nb\nc\n", "a\nc\n", "-2: b\n"},
		{"a\nc\n", "a\nb\nc\n", "+2: b\n"},
		{"1\n2\n3\n4\n5\n", "1\nx\n3\n4\ny\n", "-2: 2\n+2: x\n-5: 5\n+5: y\n"},
		{"a", "a\n", "+2: \n"},
		{"", "a\nb", "-1: \n+1: a\n+2: b\n"},
	} {
		if diff := Diff(tt.want, tt.have); diff != tt.diff {
			t.Errorf("%q and %q: %q, want %q", tt.want, tt.have, diff, tt.diff)
		}
	}
	long := Diff(strings.Repeat("a\n", 100), strings.Repeat("b\n", 100))
	if n := strings.Count(long, "\n"); n != mostLines+1 || !strings.Contains(long, "more lines differ") {
		t.Errorf("a long difference has %d lines", n)
	}
	huge := Diff(strings.Repeat("a\n", 9000), strings.Repeat("b\n", 9000))
	if n := strings.Count(huge, "\n"); n != mostLines+1 {
		t.Errorf("a huge difference has %d lines", n)
	}
}

// recorder is a test that collects its failures.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// TestCheck: a missing file and a different one fail with the command, an equal one does not, and update writes it.
func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "file")
	r := &recorder{TB: t}
	Check(r, path, "a\n", false, "COMMAND")
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], "COMMAND") {
		t.Errorf("a missing file: %q", r.failures)
	}
	r.failures = nil
	Check(r, path, "a\n", true, "COMMAND")
	Check(r, path, "a\n", false, "COMMAND")
	if text, err := os.ReadFile(path); err != nil || string(text) != "a\n" || len(r.failures) != 0 {
		t.Errorf("%q, %v, %q", text, err, r.failures)
	}
	Check(r, path, "b\n", false, "COMMAND")
	if len(r.failures) != 1 || !strings.Contains(r.failures[0], path+" differs:\n-1: a\n+1: b\n") ||
		!strings.Contains(r.failures[0], "COMMAND") {
		t.Errorf("a different file: %q", r.failures)
	}
}
