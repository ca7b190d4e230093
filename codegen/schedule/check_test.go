package schedule

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

func TestCheckRefuses(t *testing.T) {
	mapK := unaryMap(ir.F32, dims(33, 1026)...)
	row := rowSum(ir.F32, ir.D(64), ir.D(4096), true)
	mm := matMul(one, ir.D(512), ir.D(512), ir.D(512), ir.F32, false)
	mv := matMul(one, ir.D(4), ir.D(512), ir.D(512), ir.F32, true)
	flash := attention(ir.D(8), ir.D(4), ir.D(512), ir.D(512), ir.D(64))
	goodFlash := ratedTile{tile: tile{32, 32, 16, 4, 2}}.flashSchedule(4, 0)
	fewRows := attention(ir.D(8), ir.D(4), one, ir.D(512), ir.D(64))
	goodFlashVec := kernel.FlashVec{Launch: kernel.Launch{Variant: kernel.VarFlashVec, Workgroup: 128, Vec: 4,
		Subgroup: 32}, Flash: kernel.Flash{Heads: 4, Splits: 4}, LanesPerRow: 8, TileM: 4, ThreadM: 4, TileN: 32,
		ThreadN: 2}
	goodMap := kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 64, Vec: 2}}
	goodRow := kernel.Row{Launch: kernel.Launch{Variant: kernel.VarRowGroup, Workgroup: 128, Vec: 4},
		LanesPerRow: 128, Cache: 32}
	goodScan := kernel.Lanes{Launch: kernel.Launch{Variant: kernel.VarScanGroup, Workgroup: 128, Vec: 4},
		LanesPerRow: 128}
	goodSelect := kernel.Row{Launch: kernel.Launch{Variant: kernel.VarSelect, Workgroup: 128, Vec: 1},
		LanesPerRow: 128, Cache: 64}
	goodSort := kernel.Lanes{Launch: kernel.Launch{Variant: kernel.VarSort, Workgroup: 128, Vec: 1}, LanesPerRow: 128}
	goodTile := tile{64, 32, 16, 4, 4}.schedule()
	goodDirect := kernel.MatDirect{Launch: kernel.Launch{Variant: kernel.VarMatDirect, Workgroup: 16, Vec: 4},
		Tile: kernel.Tile{TileM: 16, TileN: 64, TileK: 8}, ThreadM: 16, ThreadN: 4}
	eightRows := on(func(s *kernel.MatVec, _ *device.Caps) { s.TileM, s.ThreadM = 8, 8 })
	goodVec := kernel.MatVec{Launch: kernel.Launch{Variant: kernel.VarMatVec, Workgroup: 64, Vec: 4},
		Tile: kernel.Tile{TileM: 4, TileN: 2}, LanesPerRow: 32, ThreadM: 4, ThreadN: 1}

	cases := []struct {
		what   string
		k      *kernel.Kernel
		s      kernel.Schedule
		change func(*kernel.Schedule, *device.Caps)
		want   string // in the error; empty for none
	}{
		{"map", mapK, goodMap, nil, ""},
		{"row", row, goodRow, nil, ""},
		{"tile", mm, goodTile, nil, ""},
		{"matvec", mv, goodVec, nil, ""},

		{"flash", flash, goodFlash, nil, ""},

		{"heads that do not share keys", flash, goodFlash, on(func(s *kernel.FlashTile,
			_ *device.Caps) {
			s.Heads = 2
		}), "want 1 or the 4"},
		{"flash workgroup", flash, goodFlash, on(func(s *kernel.FlashTile, _ *device.Caps) { s.Workgroup = 64 }),
			"takes 128 invocations"},
		{"flash steps", flash, goodFlash, on(func(s *kernel.FlashTile, _ *device.Caps) { s.TileK = 24 }),
			"do not divide"},
		{"flash vectors", flash, goodFlash, on(func(s *kernel.FlashTile, _ *device.Caps) { s.TileK = 2 }),
			"multiple of 4"},
		{"flash without a tile", flash, goodFlash, on(func(s *kernel.FlashTile, _ *device.Caps) { s.Heads = 0 }),
			"at least 1"},
		{"flash spills", attention(one, one, ir.D(512), ir.D(512), ir.D(512)), goodFlash, on(func(s *kernel.FlashTile,
			_ *device.Caps) {
			s.Heads = 1
		}), "spill"},
		{"flash lanes beyond a subgroup", flash, goodFlash, on(func(s *kernel.FlashTile,
			c *device.Caps) {
			*c = fixedSubgroup(*c, 8)
			s.Subgroup = 8
		}), "within a subgroup"},
		{"flash vec", fewRows, goodFlashVec, on(func(_ *kernel.FlashVec, c *device.Caps) {
			*c = fixedSubgroup(*c,
				32)
		}), ""},
		{"flash vec without a subgroup", fewRows, goodFlashVec, on(func(s *kernel.FlashVec,
			c *device.Caps) {
			*c = fixedSubgroup(*c, 32)
			s.Subgroup = 0
		}), "must be in a subgroup"},
		{"flash vec lanes", fewRows, goodFlashVec, on(func(s *kernel.FlashVec, c *device.Caps) {
			*c = fixedSubgroup(*c,
				32)
			s.LanesPerRow = 64
		}), "within a subgroup"},
		{"flash vec keys", fewRows, goodFlashVec, on(func(s *kernel.FlashVec, c *device.Caps) {
			*c = fixedSubgroup(*c,
				32)
			s.TileN = 16
		}), "a step 32"},
		{"flash vec spills", attention(one, ir.D(16), one, ir.D(512), ir.D(128)), goodFlashVec,
			on(func(s *kernel.FlashVec, c *device.Caps) {
				*c = fixedSubgroup(*c, 32)
				s.TileM, s.ThreadM, s.Heads = 16, 16, 16
			}), "spill"},
		{"too many splits", fewRows, goodFlashVec, on(func(s *kernel.FlashVec, c *device.Caps) {
			*c = fixedSubgroup(*c,
				32)
			s.Splits = 129
		}), "want 0 to 128"},
		{"an empty split", fewRows, goodFlashVec, on(func(s *kernel.FlashVec, c *device.Caps) {
			*c = fixedSubgroup(*c,
				32)
			s.Splits = 30
		}), "would see none"},
		{"no attention", &kernel.Kernel{Name: "bare", Family: kernel.FamilyAttention},
			goodFlash, nil, "without operands"},
		{"operand of another axis", func() *kernel.Kernel {
			k := *flash
			a := *k.Attention
			a.K = a.Q
			k.Attention = &a
			return &k
		}(), goodFlash, nil, "not its own"},

		{"scan", runningSum(ir.F32, ir.D(64), ir.D(4096), false), goodScan, nil, ""},
		{"scan of an axis that lies apart", runningSum(ir.F32, ir.D(64), ir.D(4096), true), goodScan, nil,
			"= scan_group wg=128 lanes=128 vec=1"},
		{"odd lanes of a scan", runningSum(ir.F32, ir.D(64), ir.D(4096), false), goodScan, on(func(s *kernel.Lanes,
			_ *device.Caps) {
			s.LanesPerRow = 96
		}), "power of two"},
		{"lanes of a serial scan", runningSum(ir.F32, ir.D(64), ir.D(4096), false), goodScan, on(func(s *kernel.Lanes,
			_ *device.Caps) {
			s.Variant = kernel.VarScanSerial
		}), "a serial variant has one"},
		{"sort", argsort(ir.F32, ir.D(64), ir.D(2000), ir.D(40)), goodSort, nil, ""},
		{"a sort of too long rows", argsort(ir.F32, ir.D(64), ir.D(2049), ir.D(40)), goodSort, nil, "shared memory"},
		{"a sort of wide keys", argsort(ir.F64, ir.D(64), ir.D(200), ir.D(40)), goodSort, on(func(_ *kernel.Lanes,
			c *device.Caps) {
			c.Features.Float64 = true
		}), "keys have 32 bits"},
		{"selection", argsort(ir.F32, ir.D(64), ir.D(8192), ir.D(512)), goodSelect, nil, ""},
		{"a selection of too long rows", argsort(ir.F32, ir.D(64), ir.D(8193), ir.D(512)), goodSelect, nil,
			"does not hold a row"},
		{"a selection that takes too much", argsort(ir.F32, ir.D(64), ir.D(8192), ir.D(1025)), goodSelect, nil,
			"shared memory"},
		{"a selection by wide keys", argsort(ir.F64, ir.D(64), ir.D(200), ir.D(40)), goodSelect, on(func(_ *kernel.Row,
			c *device.Caps) {
			c.Features.Float64 = true
		}), "keys have 32 bits"},
		{"a selection without registers", argsort(ir.F32, ir.D(64), ir.D(8192), ir.D(512)), goodSelect,
			on(func(s *kernel.Row, _ *device.Caps) { s.Cache = 0 }), "caching 0"},
		{"rows of a sort", argsort(ir.F32, ir.D(64), ir.D(60), ir.D(60)), goodSort, on(func(s *kernel.Lanes,
			_ *device.Caps) {
			s.LanesPerRow = 32
		}), ""},
		{"too many rows of a sort", argsort(ir.F32, ir.D(64), ir.D(2000), ir.D(40)), goodSort, on(func(s *kernel.Lanes,
			_ *device.Caps) {
			s.LanesPerRow = 64
		}), "shared memory"},
		{"uneven rows of a sort", argsort(ir.F32, ir.D(64), ir.D(60), ir.D(60)), goodSort, on(func(s *kernel.Lanes,
			_ *device.Caps) {
			s.LanesPerRow = 48
		}), "power of two"},
		{"two rows in a selection", argsort(ir.F32, ir.D(64), ir.D(4000), ir.D(40)), goodSelect, on(func(s *kernel.Row,
			_ *device.Caps) {
			s.LanesPerRow = 64
		}), "takes all of it"},
		{"vectors in a sort", argsort(ir.F32, ir.D(64), ir.D(2000), ir.D(40)), goodSort, on(func(s *kernel.Lanes,
			_ *device.Caps) {
			s.Vec = 4
		}), "neither vectors"},
		{"a scan by rows", runningSum(ir.F32, ir.D(64), ir.D(4096), false), goodRow, nil, "this is a scan"},

		{"no variant", mapK, goodMap, on(func(s *kernel.Points, _ *device.Caps) { s.Variant = "abacus" }),
			"unknown variant"},
		{"wrong family", mm, goodMap, nil, "this is a matmul"},
		{"no workgroup", mapK, goodMap, on(func(s *kernel.Points, _ *device.Caps) { s.Workgroup = 0 }),
			"workgroup of 0"},
		{"large workgroup", mapK, goodMap, on(func(s *kernel.Points, _ *device.Caps) { s.Workgroup = 256 }),
			"allows 1 to 128"},
		{"workgroup of one too many", mapK, goodMap, on(func(s *kernel.Points, _ *device.Caps) { s.Workgroup = 129 }),
			"allows 1 to 128"},
		{"workgroup width", mapK, goodMap, on(func(_ *kernel.Points, c *device.Caps) { c.MaxWorkgroupSize[0] = 32 }),
			"allows 1 to 32"},
		{"odd vector", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) { s.Vec = 3 }), "vectors of 3"},
		{"unaligned map", mapK, goodMap, on(func(s *kernel.Points, _ *device.Caps) { s.Vec = 4 }), "= map wg=64 vec=2"},

		{"odd lanes", row, goodRow, on(func(s *kernel.Row, _ *device.Caps) { s.LanesPerRow = 96 }), "power of two"},
		{"lanes over workgroup", row, goodRow, on(func(s *kernel.Row, _ *device.Caps) { s.LanesPerRow = 256 }),
			"do not divide"},
		{"small cache", row, goodRow, on(func(s *kernel.Row, _ *device.Caps) { s.Cache = 16 }),
			"= row_group wg=128 lanes=128 cache=0 vec=4"},
		{"large cache", row, goodRow, on(func(s *kernel.Row, _ *device.Caps) { s.Cache = 128 }),
			"= row_group wg=128 lanes=128 cache=32 vec=4"},
		{"a cache of a long share", row, goodRow, on(func(s *kernel.Row, _ *device.Caps) {
			s.Cache,
				s.LanesPerRow = 128, 32
		}), "want 0 to 64"},
		{"cache in part vectors", row, goodRow, on(func(s *kernel.Row, _ *device.Caps) { s.Cache = 34 }),
			"= row_group wg=128 lanes=128 cache=32 vec=4"},
		{"lanes of a serial row", row, goodRow, on(func(s *kernel.Row,
			_ *device.Caps) {
			s.Variant = kernel.VarRowSerial
		}), "a serial variant has one"},

		{"subgroup unknown", row, goodRow, on(func(s *kernel.Row,
			c *device.Caps) {
			s.Subgroup = 32
			c.SubgroupOps = 0x17
		}), "cannot be relied on"},
		{"subgroup size that cannot be asked for", row, goodRow, on(func(s *kernel.Row, c *device.Caps) {
			*c = fixedSubgroup(*c, 32)
			c.MaxSubgroupSize, c.RequiredSubgroupSize = 64, false
			c.Features.SubgroupSizeControl, c.Features.FullSubgroups = true, true
			s.Subgroup = 32
		}), "cannot be relied on"},
		{"subgroup without shuffles", row, goodRow, on(func(s *kernel.Row, _ *device.Caps) { s.Subgroup = 32 }),
			"no subgroup shuffles"},
		{"odd subgroup", row, goodRow, on(func(s *kernel.Row, _ *device.Caps) { s.Subgroup = 24 }), "not a power of two"},
		{"part subgroup", row, goodRow, on(func(s *kernel.Row, c *device.Caps) {
			*c = fixedSubgroup(*c, 32)
			s.Workgroup, s.LanesPerRow, s.Subgroup, s.Cache = 16, 16, 32, 0
		}), "whole number of subgroups"},
		{"too many subgroups", row, goodRow, on(func(s *kernel.Row, c *device.Caps) {
			*c = fixedSubgroup(*c, 2)
			s.Subgroup = 2
		}), "sure to be allowed"},
		{"subgroup relied on", row, goodRow, on(func(s *kernel.Row, c *device.Caps) {
			*c = fixedSubgroup(*c,
				32)
			s.Subgroup = 32
		}), ""},

		{"tile depth", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) { s.TileK = 6 }), "multiple of 4"},
		{"thread tile", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) { s.ThreadN = 5 }), "do not divide"},
		{"no thread tile", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) { s.ThreadM = 0 }), "at least 1"},
		{"direct", mm, goodDirect, nil, ""},
		{"rows of a direct tile", mm, goodDirect, on(func(s *kernel.MatDirect,
			_ *device.Caps) {
			s.ThreadM = 8
			s.Workgroup = 32
		}), "do not share"},
		{"direct spills", mm, goodDirect, on(func(s *kernel.MatDirect, _ *device.Caps) {
			s.TileM, s.ThreadM = 64,
				64
		}), "spill"},
		{"tile invocations", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) { s.Workgroup = 64 }),
			"takes 128 invocations"},
		{"paired", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) { s.Paired = true }), ""},
		{"paired alone", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) {
			s.Paired, s.TileM,
				s.Workgroup = true, 4, 8
		}), "not blocks of 2x2"},
		{"steps", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) { s.Steps = true }), ""},
		{"steps of two", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) {
			s.Steps, s.ThreadN, s.TileN = true,
				2, 16
		}), "vectors of four both ways"},
		{"spills", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) {
			s.TileM, s.TileN, s.ThreadM, s.ThreadN = 128, 128, 16, 16
			s.Workgroup = 64
		}), "spill"},
		{"shared memory", mm, goodTile, on(func(s *kernel.MatTile, _ *device.Caps) { s.TileK = 64 }),
			"bytes of shared memory"},
		{"grid", mm, goodTile, on(func(_ *kernel.MatTile, c *device.Caps) {
			c.MaxWorkgroupCount = [3]uint32{1, 1,
				1}
		}), "more workgroups"},

		{"rows of a grid", mm, goodTile, on(func(_ *kernel.MatTile,
			c *device.Caps) {
			c.MaxWorkgroupCount = [3]uint32{127, 7, 1}
		}), "more workgroups"},
		{"matvec of one row too many", matMul(one, ir.D(17), ir.D(512), ir.D(512), ir.F32, true), goodVec, nil,
			"at most 16"},
		{"matvec rows", mm, goodVec, nil, "at most 16"},
		{"matvec of 16 rows", matMul(one, ir.D(16), ir.D(512), ir.D(512), ir.F32, true), goodVec, eightRows, ""},
		{"matvec rows left out", mv, goodVec, on(func(s *kernel.MatVec, _ *device.Caps) { s.TileM, s.ThreadM = 2, 2 }),
			"must compute all 4 rows"},
		{"matvec lanes", mv, goodVec, on(func(s *kernel.MatVec, _ *device.Caps) { s.LanesPerRow = 24 }),
			"power of two"},
		{"matvec invocations", mv, goodVec, on(func(s *kernel.MatVec, _ *device.Caps) { s.TileN = 4 }),
			"takes 128 invocations"},
	}
	for _, c := range cases {
		caps, s := profile(t, "generic"), c.s
		if c.change != nil {
			c.change(&s, &caps)
		}
		got, err := New(c.k, s, caps)
		expect(t, c.what, got, err, c.want)
	}
}

// on changes the parameters of a schedule.
func on[P kernel.Schedule](change func(*P, *device.Caps)) func(*kernel.Schedule, *device.Caps) {
	return func(s *kernel.Schedule, caps *device.Caps) {
		p := (*s).(P)
		change(&p, caps)
		*s = p
	}
}

// expect checks a schedule that [New] made: want is part of its error, or "" for none, or its text after "= ".
func expect(t *testing.T, what string, got kernel.Schedule, err error, want string) {
	t.Helper()
	text, made := strings.CutPrefix(want, "= ")
	switch {
	case made && (err != nil || got.String() != text):
		t.Errorf("%s: got %s and error %v, want %s", what, got, err, text)
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case !made && want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: got %s and error %v, want an error with %q", what, got, err, want)
	}
}

func fixedSubgroup(c device.Caps, n uint32) device.Caps {
	c.SubgroupSize, c.MinSubgroupSize, c.MaxSubgroupSize = n, n, n
	c.SubgroupOps = subgroupSums
	return c
}

func TestMissing(t *testing.T) {
	generic := profile(t, "generic")
	cases := []struct {
		k    *kernel.Kernel
		want []string // one part of each gap
	}{
		{unaryMap(ir.F32, dims(8)...), nil},
		{unaryMap(ir.F16, dims(8)...), nil},
		{unaryMap(ir.F64, dims(8)...), []string{"feature float64: buffer \"x\" is f64; cast to f32"}},
		{unaryMap(ir.I64, dims(8)...), nil}, // pairs of words do
		{unaryMap(ir.U8, dims(8)...), nil},  // words do
		{matMul(one, one, ir.D(32), ir.D(32), ir.MXFP4, true), nil},
		{matMul(one, one, ir.D(32), ir.D(32), ir.Q4_0, true), nil},
		{unaryMap(ir.F64, dims(1<<15, 1<<12)...), []string{"float64", "maxStorageRange", "maxStorageRange"}},
	}
	for _, c := range cases {
		got := Missing(c.k, generic)
		if len(got) != len(c.want) {
			t.Errorf("%s: missing %q, want %q", c.k.Bindings[1].DType, got, c.want)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("missing %q, want %q", got[i], c.want[i])
			}
		}
	}
	few := generic
	few.MaxStorageBuffers = 1
	if got := Missing(unaryMap(ir.F32, dims(8)...), few); len(got) != 1 ||
		!strings.Contains(got[0], "binds 2 buffers") {
		t.Errorf("missing %q, want the number of buffers", got)
	}
}

func TestMissingIsSelectsError(t *testing.T) {
	_, _, err := Select(unaryMap(ir.F64, dims(8)...), profile(t, "arm-mali"))
	if err == nil || !strings.Contains(err.Error(), "Mali-G715 cannot run kernel exp") ||
		!strings.Contains(err.Error(), "float64") {
		t.Errorf("got %v, want device, kernel and feature named", err)
	}
}

func TestHas(t *testing.T) {
	c := device.Caps{Features: device.Features{Storage16: true}, SubgroupOps: device.SubgroupShuffle}
	if !c.Has("subgroup_shuffle") || c.Has("subgroup_basic") {
		t.Error("Has misjudges a subgroup operation")
	}
	if !c.Has("storage16") || c.Has("storage8") || c.Has("Storage16") || c.Has("nonsense") {
		t.Error("Has misjudges a feature")
	}
	for feature := range remedies {
		c := device.Caps{Features: device.Features{Float64: true, Int64: true, Storage8: true, Storage16: true}}
		if !c.Has(feature) {
			t.Errorf("remedies names %q, which no field has", feature)
		}
	}
}

func TestMatMulGrid(t *testing.T) {
	s := tile{16, 16, 16, 2, 2}.schedule()
	k := matMul(ir.D(3), ir.Symbol("T", 100), ir.D(40), ir.D(8), ir.F32, false)
	g, err := MatMulGrid(k, s.Tile, profile(t, "generic"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.Grid(k).Eval(map[string]int64{"T": 17})
	if err != nil || got != [3]uint32{3, 2, 3} {
		t.Errorf("grid %v, %v; want 3 column tiles, 2 row tiles, batch 3", got, err)
	}

	many := matMul(ir.D(100000), ir.D(16), ir.D(16), ir.D(16), ir.F32, false)
	h100 := profile(t, "nvidia-h100")
	if g, err = MatMulGrid(many, s.Tile, h100); err != nil || len(g[0]) != 2 || g[0][1].Axis != 0 || len(g[2]) != 0 {
		t.Errorf("grid %v, %v; want the batch in x, which is long enough", g, err)
	}
	if _, err = MatMulGrid(many, s.Tile, profile(t, "lavapipe")); err == nil ||
		!strings.Contains(err.Error(), "split the batch") {
		t.Errorf("got %v, want the limit and what to do", err)
	}
	tall := matMul(one, ir.D(16*70000), ir.D(16), ir.D(16), ir.F32, false)
	if g, err = MatMulGrid(tall, s.Tile, h100); err != nil || len(g[0]) != 2 || g[0][1].Axis != 1 {
		t.Errorf("grid %v, %v; want the rows in x", g, err)
	}
}
