//go:build unix

package trusted

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes a directory of the user's own with a file a/b/file in it.
func tree(t *testing.T) (root, file string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(root, "a", "b", "file")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return root, file
}

// mode sets a mode whatever the umask is.
func mode(t *testing.T, path string, m fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, m); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) string {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, root, file string) (path string)
		want    string // part of the error; empty for none
	}{
		{"the user's own", func(_ *testing.T, _, file string) string { return file }, ""},
		{"a directory", func(_ *testing.T, root, _ string) string { return filepath.Join(root, "a") }, ""},
		{"the root directory", func(*testing.T, string, string) string { return "/" }, ""},
		{"file for all to write", func(t *testing.T, _, file string) string {
			mode(t, file, 0o646)
			return file
		}, "can be written by others"},
		{"directory for all to write", func(t *testing.T, root, file string) string {
			mode(t, filepath.Join(root, "a"), 0o777)
			return file
		}, "can be written by others"},
		{"sticky directory on the way", func(t *testing.T, root, file string) string {
			mode(t, filepath.Join(root, "a"), 0o777|fs.ModeSticky)
			return file
		}, ""},
		{"sticky directory itself", func(t *testing.T, root, _ string) string {
			mode(t, filepath.Join(root, "a"), 0o777|fs.ModeSticky)
			return filepath.Join(root, "a")
		}, "can be written by others"},
		{"absolute link", func(t *testing.T, root, file string) string {
			return link(t, file, filepath.Join(root, "link"))
		}, ""},
		{"relative link up and down", func(t *testing.T, root, file string) string {
			return link(t, "../a/./b/file", filepath.Join(root, "a", "link"))
		}, ""},
		{"link to what can be written by others", func(t *testing.T, root, file string) string {
			mode(t, filepath.Join(root, "a", "b"), 0o777)
			return link(t, file, filepath.Join(root, "link"))
		}, "can be written by others"},
		{"link in a directory that can be written by others", func(t *testing.T, root, file string) string {
			open := filepath.Join(root, "open")
			if err := os.Mkdir(open, 0o755); err != nil {
				t.Fatal(err)
			}
			mode(t, open, 0o777)
			link(t, file, filepath.Join(open, "link"))
			return link(t, filepath.Join(open, "link"), filepath.Join(root, "link"))
		}, "can be written by others"},
		{"link to itself", func(t *testing.T, root, _ string) string {
			return link(t, "loop", filepath.Join(root, "loop"))
		}, "symbolic links"},
		{"relative path", func(*testing.T, string, string) string { return "file" }, "relative path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, file := tree(t)
			err := Check(tt.prepare(t, root, file))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestCheckAbsent(t *testing.T) {
	root, file := tree(t)
	for _, path := range []string{file + "2", filepath.Join(root, "no", "file"),
		link(t, file+"2", filepath.Join(root, "link"))} {
		if err := Check(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestCheckOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	for _, name := range []string{"a/b/file", "a/b", "a"} {
		root, file := tree(t)
		if err := os.Chown(filepath.Join(root, name), 12345, -1); err != nil {
			t.Fatal(err)
		}
		if err := Check(file); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("%s of another user: %v", name, err)
		}
	}
	root, file := tree(t)
	path := link(t, file, filepath.Join(root, "link"))
	if err := os.Lchown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if err := Check(path); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("link of another user: %v", err)
	}
}

func TestCheckGroup(t *testing.T) {
	root, file := tree(t)
	mode(t, file, 0o664)
	if os.Geteuid() == 0 {
		if err := os.Chown(file, -1, 12345); err != nil {
			t.Fatal(err)
		}
		if err := Check(file); err == nil || !strings.Contains(err.Error(), "can be written by others") {
			t.Errorf("writable for a group of others: %v", err)
		}
	}
	other := filepath.Join(root, "a", "b", "other")
	if err := os.WriteFile(other, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	mode(t, other, 0o664)
	if err := Check(other); (err == nil) != privateGroup(uint32(os.Getegid())) {
		t.Errorf("writable for the user's primary group: %v; it is private: %t", err,
			privateGroup(uint32(os.Getegid())))
	}
}
