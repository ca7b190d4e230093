package schedule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/ceil"
	"github.com/vkc-go/vkc/ir"
)

// remedies suggests an alternative to a missing feature.
var remedies = map[string]string{
	"float64":   "cast to f32",
	"int64":     "use i32, which holds every index into a buffer",
	"storage16": "store the tensor as f32, or compile for a device with 16-bit storage",
	"storage8":  "store the tensor as i32, f32 or f16, or compile for a device with 8-bit storage",
}

// Needs returns the features that every schedule of the kernel needs, by their names in [Caps.Has], sorted. Generated
// code can read 8- and 16-bit elements in words, and can use pairs of words for 64-bit integers, so only custom kernels
// need features for them.
func Needs(k *kernel.Kernel) []string { return slices.Sorted(maps.Keys(needs(k))) }

// needs returns each needed feature with a description of the part of the kernel that uses it.
func needs(k *kernel.Kernel) map[string]string {
	users := map[string]string{}
	note := func(feature, user string) {
		if _, ok := users[feature]; feature != "" && !ok {
			users[feature] = user
		}
	}
	for _, b := range k.Bindings {
		feature := device.StorageFeature(b.DType)
		if k.Custom == nil && feature != "float64" { // generated code uses words and pairs of words
			continue
		}
		note(feature, fmt.Sprintf("buffer %q is %s", b.Name, b.DType))
	}
	if k.Custom != nil {
		for _, name := range k.Custom.Kernel().Needs {
			note(name, fmt.Sprintf("custom op %s needs it", k.Custom.Op))
		}
	}
	kernel.Walk(k.Roots(), func(e *kernel.Expr) {
		if e.DType == ir.F64 {
			note("float64", "a value is f64")
		}
		is64 := func(v *kernel.Expr) bool { return v.DType == ir.I64 }
		if e.Kind == kernel.ExprApply && e.Op.Info().Custom != nil && (is64(e) || slices.ContainsFunc(e.Args, is64)) {
			note("int64", fmt.Sprintf("the text of %s computes with i64", e.Op))
		}
	})
	return users
}

// Missing lists the features and limits that the kernel needs and the device lacks. Each line names one, its user, and
// an alternative.
func Missing(k *kernel.Kernel, caps device.Caps) []string {
	var gaps []string
	users := needs(k)
	for _, feature := range Needs(k) {
		if !caps.Has(feature) {
			gap := fmt.Sprintf("feature %s: %s", feature, users[feature])
			if r := remedies[feature]; r != "" {
				gap += "; " + r
			}
			gaps = append(gaps, gap)
		}
	}
	if n := len(k.Bindings); uint64(n) > uint64(caps.MaxStorageBuffers) {
		gaps = append(gaps, fmt.Sprintf("maxStorageBuffers %d: the kernel binds %d buffers; "+
			"a custom kernel can do with fewer if some of its tensors are made one",
			caps.MaxStorageBuffers, n))
	}
	if !caps.Features.Int64 && k.LargestPosition() > float64(caps.Position32()) {
		gaps = append(gaps, fmt.Sprintf("feature int64: positions reach %.0f, which 32 bits do not hold; split the "+
			"tensor, or give symbols smaller bounds", k.LargestPosition()))
	}
	for _, b := range k.Bindings {
		if caps.InWords(b.DType) && k.Custom == nil && isWide(caps, b) {
			gaps = append(gaps, fmt.Sprintf("feature %s: buffer %q has %d elements of %s, and words are counted in "+
				"32 bits; split the tensor", device.StorageFeature(b.DType), b.Name, b.Elems, b.DType))
		}
		if bytes := bindingBytes(b); bytes > caps.MaxStorageRange && !ByAddress(k, b, caps) {
			gaps = append(gaps,
				fmt.Sprintf("maxStorageRange %d: buffer %q takes %d bytes; split the tensor or store it in a "+
					"smaller dtype",
					caps.MaxStorageRange, b.Name, bytes))
		}
	}
	return gaps
}

// ByAddress reports whether a kernel accesses a buffer by its address, because the buffer exceeds the device's maximum
// binding size (128 MiB on some devices). The binding then holds the address. Custom kernels can only use bindings.
func ByAddress(k *kernel.Kernel, b kernel.Binding, caps device.Caps) bool {
	return bindingBytes(b) > caps.MaxStorageRange && caps.Features.BufferDeviceAddress && k.Custom == nil
}

// isWide reports whether positions in a buffer need 64 bits.
func isWide(caps device.Caps, b kernel.Binding) bool { return b.Elems-1 > caps.Position32() }

// bindingBytes returns the size of a buffer in bytes, with every symbol at its bound.
func bindingBytes(b kernel.Binding) uint64 {
	blocks := ceil.Div(b.Elems, int64(max(b.DType.BlockElems(), 1)))
	return uint64(max(blocks, 0)) * uint64(b.DType.BlockBytes())
}

// MissingError means that a device cannot run a kernel with any schedule.
type MissingError struct {
	Kernel string   // its name
	Device string   // Caps.Name
	Gaps   []string // the result of [Missing]
}

// Error lists every gap.
func (e *MissingError) Error() string {
	return fmt.Sprintf("schedule: %s cannot run kernel %s: it lacks %s", e.Device, e.Kernel,
		strings.Join(e.Gaps, "; and "))
}
