package compiler

import "runtime/debug"

// Version returns the version of the vkc module, or "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	v := info.Main.Version
	for _, dep := range info.Deps {
		if dep.Path == "github.com/vkc-go/vkc" {
			v = dep.Version
		}
	}
	if v == "" || v == "(devel)" {
		return "devel"
	}
	return v
}
