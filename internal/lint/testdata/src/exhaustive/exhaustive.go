package exhaustive

import "github.com/vkc-go/vkc/codegen/kernel"

func switches(f kernel.Family, v kernel.Variant, s string) {
	switch f { // want `this switch over kernel.Family leaves out FamilyRow: add cases, or a default that holds for them`
	case kernel.FamilyMap:
	}
	switch f {
	case kernel.FamilyMap, "row":
	}
	switch f {
	case kernel.FamilyMap:
	default:
	}
	switch v { // want `leaves out VarMap`
	}
	switch s {
	case "map":
	}
	switch {
	case f == kernel.FamilyMap:
	}
}
