package schedule

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// attention is a causal attention of heads query heads over groups key heads,
// in f16.
func attention(groups, heads, queries, keys, dot ir.Dim) *kernel.Kernel {
	b := kernel.NewBuilder()
	k := &kernel.Kernel{Name: "attention", Family: kernel.FamilyAttention,
		Parallel: []ir.Dim{one, groups, heads, queries, dot}, Fold: keys,
		Bindings: []kernel.Binding{binding("q", ir.F16, groups, heads, queries, dot),
			binding("k", ir.F16, groups, keys, dot),
			binding("v", ir.F16, groups, keys, dot), binding("y", ir.F16, groups, heads, queries, dot)}}
	ax := k.AttentionAxes()
	// row-major over the last axes named by ids axis, axis+1, …
	along := func(axis int, extents ...ir.Dim) kernel.Index {
		x := kernel.Const(0)
		for i, d := range extents {
			x = x.Mul(kernel.DimIndex(d)).Plus(kernel.Axis(axis+i, d))
		}
		return x
	}
	row := along(ax.Group, groups, heads, queries)
	key := kernel.Axis(ax.Group, groups).Mul(kernel.DimIndex(keys)).Plus(kernel.Axis(ax.Key, keys))
	in := func(x kernel.Index, axis int) kernel.Index {
		return x.Mul(kernel.DimIndex(dot)).Plus(kernel.Axis(axis, dot))
	}
	k.Attention = &kernel.Attention{Q: b.Load(0, ir.F16, in(row, ax.Dot), "q"),
		K: b.Load(1, ir.F16, in(key, ax.Dot), "k"),
		V: b.Load(2, ir.F16, in(key, ax.Value), "v"), Dot: dot, Scale: 0.1, Causal: true}
	y := b.Apply(ir.OpDiv, ir.F32, nil, b.Acc(2, ir.F32, "weighted"), b.Acc(1, ir.F32, "sum"))
	k.Stores = []kernel.Store{{Bind: 3, Index: in(row, ax.Value), Value: y, PerElement: true}}
	return k
}

func TestCheckFlashMatrix(t *testing.T) {
	k := attention(ir.D(8), ir.D(4), ir.D(512), ir.D(512), ir.D(64))
	good := kernel.FlashMatrix{Launch: kernel.Launch{Variant: kernel.VarFlashMatrix2, Workgroup: 256, Vec: 4,
		Subgroup: 32}, Flash: kernel.Flash{Heads: 4}, Fragment: kernel.Fragment{FragM: 16, FragN: 16, FragK: 16},
		TileM: 128, TileN: 64}
	cases := []struct {
		what   string
		k      *kernel.Kernel
		change func(*kernel.FlashMatrix, *device.Caps)
		want   string // in the error; empty for none
	}{
		{"in registers", k, nil, ""},
		{"in shared memory", k, func(s *kernel.FlashMatrix, c *device.Caps) {
			s.Variant, s.TileN, c.Matrix2 = kernel.VarFlashMatrix, 32, nil
		}, ""},
		{"too much shared memory", k, func(s *kernel.FlashMatrix,
			_ *device.Caps) {
			s.Variant = kernel.VarFlashMatrix
		}, "shared memory"},
		{"without reductions", k, func(_ *kernel.FlashMatrix, c *device.Caps) {
			m := *c.Matrix2
			m.Reductions = false
			c.Matrix2 = &m
		}, "reductions"},
		{"without fragments", k, func(_ *kernel.FlashMatrix, c *device.Caps) { c.Matrices = nil },
			"that the device has: 0"},
		{"other fragments", k, func(s *kernel.FlashMatrix, _ *device.Caps) { s.FragN = 8 }, "square ones"},
		{"rows", k, func(s *kernel.FlashMatrix, _ *device.Caps) { s.TileM = 64 },
			"64 rows for 8 subgroups that hold 16 each"},
		{"keys", k, func(s *kernel.FlashMatrix, _ *device.Caps) { s.TileN = 40 }, "do not go together"},
		{"two fragments of rows each", k, func(s *kernel.FlashMatrix, _ *device.Caps) { s.TileM = 256 },
			"256 rows for 8 subgroups that hold 16 each"},
		{"three stages", k, func(s *kernel.FlashMatrix, _ *device.Caps) { s.TileN, s.Stages = 16, 3 }, "want 1 or 2"},
		{"odd vectors", attention(ir.D(8), ir.D(4), ir.D(512), ir.D(512), ir.D(72)), nil, "not a multiple of 16"},
		{"long vectors", attention(ir.D(8), ir.D(4), ir.D(512), ir.D(512), ir.D(288)), nil, "longer than 256"},
		{"f32", func() *kernel.Kernel {
			wide := *k
			a := *k.Attention
			a.Q = kernel.NewBuilder().Cast(ir.F32, a.Q)
			wide.Attention = &a
			return &wide
		}(), nil, "matrix units take f16"},
	}
	for _, c := range cases {
		s, caps := good, profile(t, "nvidia-h100")
		if c.change != nil {
			c.change(&s, &caps)
		}
		got, err := New(c.k, s, caps)
		expect(t, c.what, got, err, c.want)
	}
}

// TestSplitMargin: keys of an attention are split if that is expected to be 1/0.9 times as fast, and not for less. To
// store and join the results of the runs takes no time here.
func TestSplitMargin(t *testing.T) {
	const margin = 1 / 0.9
	h := heuristicsOf(profile(t, "nvidia-h100"))
	h.LaunchNs, h.CopyGBps = 0, math.Inf(1)
	met := map[string]int{}
	for _, tl := range h.flashTiles {
		for groups := 1; groups <= 64; groups++ {
			for _, keys := range []int{256, 1000, 4096} {
				k := attention(ir.D(groups), ir.D(1), ir.D(256), ir.D(keys), ir.D(64))
				sh, faster := flashShapeOf(k), 0.0
				for n := 2; n <= maxSplits && int64(n*tl.N) <= sh.Keys; n++ {
					faster = max(faster, h.flashTileTime(tl, sh, 1)/h.flashTileTime(tl, sh, n))
				}
				splits := h.bestFlashSplits(k, tl)
				if faster != margin && (splits > 1) != (faster > margin) {
					t.Errorf("%d heads, %d keys: split in %d, up to %g times as fast", groups, keys, splits, faster)
				}
				switch {
				case faster > 1 && faster < margin:
					met["below the margin"]++
				case faster > margin && faster < margin*margin:
					met["above the margin"]++
				}
			}
		}
	}
	if met["below the margin"] < 5 || met["above the margin"] < 5 {
		t.Errorf("too few cases: %v", met)
	}
}

func TestHeadsFirst(t *testing.T) {
	causal := func(groups, queries, keys int) *kernel.Kernel {
		return attention(ir.D(groups), ir.D(1), ir.D(queries), ir.D(keys), ir.D(128))
	}
	full, h100 := causal(32, 4096, 4096), profile(t, "nvidia-h100")
	full.Attention.Causal = false
	cases := []struct {
		what    string
		k       *kernel.Kernel
		variant kernel.Variant
		caps    device.Caps
		want    bool
	}{
		{"64 MiB of keys and values", causal(32, 4096, 4096), kernel.VarFlashMatrix2, h100, true},
		{"1 GiB of them", causal(32, 4096, 1<<16), kernel.VarFlashMatrix2, h100, false},
		{"tiles that are all alike", full, kernel.VarFlashMatrix2, h100, false},
		{"one tile of queries", causal(32, 128, 4096), kernel.VarFlashMatrix2, h100, false},
		{"unknown device, 64 MiB", causal(32, 4096, 4096), kernel.VarFlashMatrix2, device.Caps{}, false},
		{"unknown device, 2 MiB", causal(2, 2048, 2048), kernel.VarFlashMatrix2, device.Caps{}, true},
		{"small tiles", causal(32, 4096, 4096), kernel.VarFlashTile, h100, false},
	}
	for _, c := range cases {
		var s kernel.Schedule = kernel.FlashMatrix{Launch: kernel.Launch{Variant: c.variant}, TileM: 128,
			Flash: kernel.Flash{Heads: 1}}
		if c.variant == kernel.VarFlashTile {
			s = kernel.FlashTile{Tile: kernel.Tile{TileM: 128}, Flash: kernel.Flash{Heads: 1}}
		}
		if have := headsFirst(c.k, s, c.caps); have != c.want {
			t.Errorf("%s: %v, want %v", c.what, have, c.want)
		}
	}
}

// TestFlashAlone: attention of one query over few keys is one kernel, with workgroups sized for the average number of
// keys.
func TestFlashAlone(t *testing.T) {
	h100 := profile(t, "nvidia-h100")
	upTo := func(n int) ir.Dim { return ir.Symbol("S", n) }
	cases := []struct {
		what                    string
		groups, heads           int
		keys                    ir.Dim
		workgroup, each, splits int
	}{
		{"64 keys on average", 32, 1, upTo(128), 256, 4, 0},
		{"128 on average", 32, 1, upTo(256), 512, 4, 0},
		{"256 on average, and no registers for four keys each", 32, 1, upTo(512), 1024, 2, 0},
		{"512 keys in any case", 32, 1, ir.D(512), 256, 4, 4},
		{"many keys", 32, 1, upTo(4096), 256, 4, 8},
		{"more workgroups than cores", 200, 1, upTo(512), 256, 4, 0},
		{"rows that take all registers", 32, 8, upTo(512), 256, 4, 0},
	}
	for _, c := range cases {
		k := attention(ir.D(c.groups), ir.D(c.heads), ir.D(1), c.keys, ir.D(128))
		chosen, _, err := Select(k, h100)
		s, ok := chosen.(kernel.FlashVec)
		if err != nil || !ok || s.Workgroup != c.workgroup || s.ThreadN != c.each || s.Splits != c.splits {
			t.Errorf("%s: %v, %v; want %d invocations of %d keys in %d runs", c.what, chosen, err, c.workgroup, c.each,
				c.splits)
		}
	}
	k := attention(ir.D(32), ir.D(1), ir.D(1), upTo(512), ir.D(128))
	if s, _, err := Select(k, profile(t, "amd-rdna3")); err != nil || s.Config().Workgroup != 128 {
		t.Errorf("where nothing is known of larger workgroups: %v, %v", s, err)
	}
}
