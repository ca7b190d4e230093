package export_test

import (
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestFound writes and reads back the graphs that once changed on the way, each made small.
func TestFound(t *testing.T) {
	for name, text := range map[string]string{
		"flip of all axes": `%0 = weight {name="w", dtype=f32, shape=[3,2]} %1 = flip %0 {axes=[]}`,
		"choice of small integers": `%0 = const {data=i16[4](all 0)} %w = weight {name="w", dtype=i16, shape=[4]}
			%2 = le %0, %w %1 = where %2, %w, %w`,
		"extent that wraps": `%x = input {name="x", dtype=f32, shape=[T]} %0 = dim_value {dim=[T]}
			%2 = cast %0 {dtype=u8} %3 = mul %2, %2 %4 = const {data=u8[](all 2)} %1 = div %3, %4`,
		"choice of elements where f32 rounds": `%0 = input {name="x", dtype=f32, shape=[3,2,312]}
			%1 = resize_nearest %0 {size=[5,3]}`,
		"largest of no small integers": `%0 = input {name="x", dtype=i16, shape=[T]} %1 = reduce_max %0 {axes=[0]}`,
		"least of no small integers":   `%0 = input {name="x", dtype=i8, shape=[3,0]} %1 = reduce_min %0 {axes=[1]}`,
		"attention to no keys": `%0 = weight {name="q", dtype=f32, shape=[4,5,2]}
			%2 = input {name="k", dtype=f32, shape=[2,T,2]} %1 = attention %0, %2, %2 {causal=true, window=3}`,
	} {
		t.Run(name, func(t *testing.T) {
			g, err := ir.Parse("graph \"g\" { symbol T <= 40\n" + text + "\noutput \"y\" %1 }")
			if err != nil {
				t.Fatal(err)
			}
			if ran, err := differ(t, g, 1); err != nil || ran == 0 {
				t.Errorf("%d runs: %v", ran, err)
			}
		})
	}
}
