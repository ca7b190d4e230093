package target

import "github.com/vkc-go/vkc/codegen/kernel"

// HalfAttention reports whether a device would run an attention whose operands
// are f16 on matrix units. Elsewhere rounding f32 to f16 first gains nothing.
func HalfAttention(k *kernel.Kernel, caps Caps) bool {
	if !flashHalf(k) {
		return false
	}
	s, _, err := Select(k, caps)
	return err == nil && (s.Variant == kernel.VarFlashMatrix || s.Variant == kernel.VarFlashMatrix2)
}
