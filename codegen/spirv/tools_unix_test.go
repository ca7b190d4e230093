//go:build unix

package spirv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRegisteredToolsAreTheUsersOwn: tools that other users may write do not run.
func TestRegisteredToolsAreTheUsersOwn(t *testing.T) {
	for name, open := range map[string]func(dir string) string{
		"the directory": func(dir string) string { return dir },
		"its parent":    func(dir string) string { return filepath.Dir(dir) },
		"one tool":      func(dir string) string { return filepath.Join(dir, "spirv-opt") },
		"vkc's folder":  func(string) string { return filepath.Dir(RegisteredDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bin")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			ran := filepath.Join(t.TempDir(), "ran")
			for _, p := range wholeSet {
				script(t, dir, p, `echo 1; touch "`+ran+`"`)
			}
			register(t, dir)
			t.Setenv(ToolsEnv, "")
			if err := os.Chmod(open(dir), 0o777); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", "")
			tc := find(t, FindOptions{})
			if got := versions(tc); got != "    " {
				t.Errorf("found %q", got)
			}
			for _, err := range []error{tc.PassedOver, tc.Ready()} {
				if err == nil || !strings.Contains(err.Error(), RegisteredDir()) ||
					!strings.Contains(err.Error(), "chmod go-w") {
					t.Errorf("it says %v", err)
				}
			}
			t.Setenv("PATH", binDir(t, "path", wholeSet...))
			if tc := find(t, FindOptions{}); versions(tc) != "path path path path path" || tc.PassedOver == nil {
				t.Errorf("with others on $PATH: %q, %v", versions(tc), tc.PassedOver)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("a tool ran")
			}
			t.Setenv(ToolsEnv, binDir(t, "env", wholeSet...))
			if got := versions(find(t, FindOptions{})); got != "env env env env env" {
				t.Errorf("beside a whole set in $%s: %q", ToolsEnv, got)
			}
		})
	}
}
