package compiler

import (
	"runtime/debug"
	"testing"
)

// TestVersion: the version is the module's own in vkc's programs, and the dependency's in programs that import vkc.
func TestVersion(t *testing.T) {
	module := func(path, version string) debug.Module { return debug.Module{Path: path, Version: version} }
	own, other := module(modulePath, "v0.3.1"), module("example.com/user", "v1.0.0")
	for _, tt := range []struct {
		name string
		main debug.Module
		deps []debug.Module
		want string
	}{
		{"an installed vkc", own, []debug.Module{other}, "v0.3.1"},
		{"a program that imports vkc", other, []debug.Module{module("example.com/a", "v9.0.0"), own}, "v0.3.1"},
		{"a checkout", module(modulePath, "(devel)"), nil, "devel"},
		{"without a version", module(modulePath, ""), []debug.Module{other}, "devel"},
		{"a replaced vkc", other, []debug.Module{module(modulePath, "(devel)")}, "devel"},
	} {
		info := &debug.BuildInfo{Main: tt.main}
		for i := range tt.deps {
			info.Deps = append(info.Deps, &tt.deps[i])
		}
		if got := versionIn(info); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
