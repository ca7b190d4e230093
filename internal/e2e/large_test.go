package e2e_test

import (
	"slices"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/devtest"
	"github.com/vkc-go/vkc/ir"
)

// TestLargerThanABinding runs a program with a weight, a state and an output that are larger than the guaranteed size
// of a Vulkan binding, 128 MiB. It accesses only a few rows of each.
func TestLargerThanABinding(t *testing.T) {
	devtest.NeedTools(t)
	devtest.OwnCache(t)
	ctx, dev := t.Context(), devtest.OpenDevice(t)
	const rows, cols = 129 << 10, 1 << 10
	g, err := frontend.Build("large", func(b *frontend.Builder) {
		ids := b.Input("ids", ir.I32, 3)
		read := b.Weight("table", ir.U8, rows, cols).IndexSelect(0, ids)
		cache := b.State("cache", ir.U8, rows, cols)
		b.Update(cache, cache.DynamicUpdateSlice(0, read, b.Input("at", ir.I32)))
		b.Output("read", read)
		b.Output("before", cache.IndexSelect(0, ids))
	})
	if err != nil {
		t.Fatal(err)
	}
	caps := dev.Caps()
	caps.MaxStorageRange = min(caps.MaxStorageRange, 128<<20)
	p, err := vkc.Compile(ctx, g, vkc.CompileOptions{Target: caps})
	if err != nil {
		t.Fatal(err)
	}
	table := make([]uint8, rows*cols)
	for i := range rows {
		table[i*cols+i%cols] = uint8(1 + i/cols)
	}
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: vkc.WeightMap{
		"table": devtest.TensorOf(t, table, rows, cols)}})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	ids := []int32{rows - 3, 7, rows - 1}
	want := make([]uint8, 0, 3*cols)
	for _, i := range ids {
		want = append(want, table[int(i)*cols:int(i+1)*cols]...)
	}
	run := func(ids []int32) (read, before []uint8) {
		t.Helper()
		res, err := exe.Run(ctx, vkc.Tensors{"ids": devtest.TensorOf(t, ids, 3),
			"at": devtest.TensorOf(t, []int32{rows - 3})})
		if err != nil {
			t.Fatal(err)
		}
		for name, to := range map[string]*[]uint8{"read": &read, "before": &before} {
			if *to, err = vkc.Values[uint8](res.Outputs[name]); err != nil {
				t.Fatal(err)
			}
		}
		return read, before
	}
	if read, before := run(ids); !slices.Equal(read, want) || slices.ContainsFunc(before, func(v uint8) bool {
		return v != 0
	}) {
		t.Error("the first run reads other rows of the weight, or a state that is not zero")
	}
	if _, before := run([]int32{rows - 3, rows - 2, rows - 1}); !slices.Equal(before, want) {
		t.Error("the state does not hold the rows that were written to its end")
	}
}
