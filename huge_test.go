package vkc_test

import (
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
)

// TestHuge reads and writes rows of a state of VKC_TEST_HUGE GiB, in u8 and in f32: past 2 GiB offsets have more than
// 31 bits, past 4 GiB more than 32. A tensor has fewer than 2^32 elements, so u8 ends at 4 GiB. Few drivers for CPUs
// allocate so much at once, so it runs only where asked.
func TestHuge(t *testing.T) {
	gib, err := strconv.ParseFloat(os.Getenv("VKC_TEST_HUGE"), 64)
	if err != nil || gib <= 0 || gib > 15 {
		t.Skip("VKC_TEST_HUGE is not set to the GiB that a tensor may have, up to 15")
	}
	needTools(t)
	ownCache(t)
	ctx, dev := t.Context(), openDevice(t)
	for _, dtype := range []ir.DType{ir.U8, ir.F32} {
		t.Run(dtype.String(), func(t *testing.T) {
			const cols = 1 << 16
			size := 1
			if dtype == ir.F32 {
				size = 4
			}
			rows := int(gib * (1 << 30) / float64(cols*size))
			if rows*cols > 1<<32-1 {
				rows = 1<<16 - 1
			}
			g, err := frontend.Build("huge", func(b *frontend.Builder) {
				s, ids := b.State("s", dtype, rows, cols), b.Input("ids", ir.I32, 3)
				row := b.Input("row", dtype, 1, cols)
				at := b.Input("at", ir.I32)
				b.Output("before", s.IndexSelect(0, ids))
				b.Update(s, s.DynamicUpdateSlice(0, row, at))
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
			exe, err := dev.Load(ctx, p, vkc.LoadOptions{NoTrial: true})
			if err != nil {
				t.Fatal(err)
			}
			defer exe.Close()
			middle := min(rows-2, 1<<31/cols) // where a sign would be
			ids := tensorOf(t, []int32{0, int32(middle), int32(rows - 1)}, 3)
			for i, at := range []int{rows - 1, middle, 0, 1} {
				row := &ir.Data{DType: dtype, Dims: []int{1, cols}, Bytes: make([]byte, cols*size)}
				for j := range row.Bytes {
					row.Bytes[j] = byte(1 + i)
				}
				res, err := exe.Run(ctx, vkc.Tensors{"ids": ids, "row": row, "at": tensorOf(t, []int32{int32(at)})})
				if err != nil {
					t.Fatal(err)
				}
				want := [][3]byte{{0, 0, 0}, {0, 0, 1}, {0, 2, 1}, {3, 2, 1}}[i]
				have := res.Outputs["before"].Bytes
				for k, w := range want {
					part := have[k*cols*size : (k+1)*cols*size]
					if n := slices.IndexFunc(part, func(b byte) bool { return b != w }); n >= 0 {
						t.Errorf("step %d: row %d has %d at byte %d, want %d", i, k, part[n], n, w)
					}
				}
			}
		})
	}
}
