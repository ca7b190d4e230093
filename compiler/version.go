package compiler

import "runtime/debug"

// modulePath is the path of vkc's module.
const modulePath = "github.com/vkc-go/vkc"

// Version returns the version of the vkc module, or "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionIn(info)
}

// versionIn returns the version of the vkc module in a program's build information: the version of the dependency on
// vkc if the program has one, and otherwise of the program's own module.
func versionIn(info *debug.BuildInfo) string {
	v := info.Main.Version
	for _, dep := range info.Deps {
		if dep.Path == modulePath {
			v = dep.Version
		}
	}
	if v == "" || v == "(devel)" {
		return "devel"
	}
	return v
}
