package rewrite_test

import (
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
)

// TestIndicesOf64Bits: indices are clamped as 64-bit numbers, before truncation to 32 bits.
func TestIndicesOf64Bits(t *testing.T) {
	const wide = `
		%x = input {name="x", dtype=f32, shape=[5,3]}
		%i = const {data=i64[4](4294967297, -8589934590, 2147483649, 3)}
		%one = slice %i {starts=[0], limits=[1]}
		%start = reshape %one {shape=[]}
		`
	for name, text := range map[string]string{
		"index_select":         `%y = index_select %x, %i {axis=0}`,
		"embedding":            `%y = embedding %x, %i`,
		"computed":             `%j = add %i, %i` + "\n" + `%y = index_select %x, %j {axis=0}`,
		"dynamic_slice":        `%y = dynamic_slice %x, %start {axis=0, size=[2]}`,
		"dynamic_update_slice": `%u = slice %x {starts=[0,0], limits=[2,3]}` + "\n" + `%y = dynamic_update_slice %x, %u, %start {axis=0}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := passtest.Check(passtest.Parse(t, wide+text+"\noutput \"y\" %y"), 1, 1); err != nil {
				t.Error(err)
			}
		})
	}
}
