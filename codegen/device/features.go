package device

import (
	"reflect"

	"github.com/vkc-go/vkc/ir"
)

// subgroupFeatures has the subgroup operations by their names in [Caps.Has].
var subgroupFeatures = map[string]SubgroupOps{
	"subgroup_basic":      SubgroupBasic,
	"subgroup_arithmetic": SubgroupArithmetic,
	"subgroup_shuffle":    SubgroupShuffle,
	"subgroup_vote":       SubgroupVote,
}

// Has reports whether the device has the named feature. A name is the JSON name of a field of [Features], such as
// "storage16" or "float64", or a key of subgroupFeatures, such as "subgroup_shuffle". It returns false for unknown
// names.
func (c Caps) Has(feature string) bool {
	if ops, ok := subgroupFeatures[feature]; ok {
		return c.SubgroupOps.Has(ops)
	}
	v := reflect.ValueOf(c.Features)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") == feature {
			return v.Field(i).Bool()
		}
	}
	return false
}

// StorageFeature returns the feature that a device needs so that kernels can access a buffer of dtype t element by
// element, or "" if every device can.
func StorageFeature(t ir.DType) string {
	switch {
	case t.IsPacked(): // read and written in words
		return ""
	case t == ir.F64:
		return "float64"
	case t == ir.I64:
		return "int64"
	case t.IsBlock() && t.BlockBytes()%2 == 0:
		return "storage16" // blocks are arrays of 16-bit words
	case t.IsBlock() || t.BlockBytes() == 1:
		return "storage8"
	case t.BlockBytes() == 2:
		return "storage16"
	}
	return ""
}

// InWords reports whether kernels access buffers of dtype t as 32-bit words: because elements are packed, or because
// the device lacks 8- or 16-bit storage. Every device supports 32-bit words.
func (c Caps) InWords(t ir.DType) bool {
	switch feature := StorageFeature(t); {
	case t.IsPacked():
		return true
	case feature == "storage8":
		return !c.Features.Storage8
	case feature == "storage16":
		return !c.Features.Storage16
	}
	return false
}
