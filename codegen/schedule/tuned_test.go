package schedule

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/pairs"
	"github.com/vkc-go/vkc/ir"
)

// TestSelectTuned: a tuned schedule is used only where it is valid.
func TestSelectTuned(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	k := rowSum(ir.F32, ir.D(4096), ir.D(4096), true)
	usual, _, err := Select(k, caps)
	if err != nil {
		t.Fatal(err)
	}
	won := usual.(kernel.Row)
	won.LanesPerRow, won.Workgroup = 64, 64
	won.Cache = 0
	unfit := won
	unfit.Workgroup = 1 << 20
	for _, tt := range []struct {
		name   string
		tuning device.Tuning
		want   kernel.Schedule
		reason string
	}{
		{"none", nil, usual, "nvidia: rows of"},
		{"of another kernel", device.Tuning{strings.Repeat("0", 64): {Schedule: won}}, usual, "nvidia: rows of"},
		{"of this one", device.Tuning{TuningKey(k): {Schedule: won, Micros: 43.1, Next: 47}},
			won, "tuned: 43.1 us, next best 47"},
		{"the only one", device.Tuning{TuningKey(k): {Schedule: usual, Micros: 43.1}}, usual, "tuned: 43.1 us"},
		{"does not fit", device.Tuning{TuningKey(k): {Schedule: unfit, Micros: 1}},
			usual, "not what tuning says: schedule: schedule"},
		{"of another family",
			device.Tuning{TuningKey(k): {Schedule: kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap,
				Workgroup: 64, Vec: 1}}}}, usual, "the variant is for map kernels"},
	} {
		s, reason, _, err := SelectTuned(k, caps, tt.tuning)
		if err != nil || s != tt.want || !strings.Contains(reason, tt.reason) {
			t.Errorf("%s: %v (%s), %v; want %v (%s)", tt.name, s, reason, err, tt.want, tt.reason)
		}
	}
}

// TestSelectTunedSplits: a table cannot have keys split that are not; of parts
// it chooses like of any other kernel.
func TestSelectTunedSplits(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	whole := attention(ir.D(2), ir.D(4), one, ir.D(4096), ir.D(64))
	usual, _, err := Select(whole, caps)
	won, ok := usual.(kernel.FlashVec)
	if err != nil || !ok || won.Splits < 2 {
		t.Fatalf("%v, %v: want a schedule that splits", usual, err)
	}
	won.Workgroup, won.TileN = won.Workgroup/2, won.TileN/2
	if _, err := New(whole, won, caps); err != nil {
		t.Fatal(err)
	}
	s, reason, _, err := SelectTuned(whole, caps, device.Tuning{TuningKey(whole): {Schedule: won}})
	if err != nil || s != usual || !strings.Contains(reason, "has not been split") {
		t.Errorf("whole: %v (%s), %v; want %v", s, reason, err, usual)
	}
	parts := attention(ir.D(2), ir.D(4), one, ir.D(4096), ir.D(64))
	parts.Parallel[parts.AttentionAxes().Split] = ir.D(won.Splits)
	s, reason, _, err = SelectTuned(parts, caps, device.Tuning{TuningKey(parts): {Schedule: won, Micros: 2}})
	if err != nil || s != won || !strings.HasPrefix(reason, "tuned: 2 us") {
		t.Errorf("parts: %v (%s), %v; want %v", s, reason, err, won)
	}
}

// TestTuningKey: names do not count, everything else does.
func TestTuningKey(t *testing.T) {
	base := rowSum(ir.F32, ir.Symbol("T", 512), ir.D(64), true)
	renamed := rowSum(ir.F32, ir.Symbol("Tokens", 512), ir.D(64), true)
	renamed.Name, renamed.Bindings[0].Name, renamed.Ops = "other", "z", []string{"sum"}
	if TuningKey(base) != TuningKey(renamed) {
		t.Error("a kernel under other names has another key")
	}
	seen := map[string]string{TuningKey(base): "base"}
	for name, k := range map[string]*kernel.Kernel{
		"another bound":  rowSum(ir.F32, ir.Symbol("T", 513), ir.D(64), true),
		"another extent": rowSum(ir.F32, ir.Symbol("T", 512), ir.D(65), true),
		"another dtype":  rowSum(ir.F16, ir.Symbol("T", 512), ir.D(64), true),
		"another body":   rowSum(ir.F32, ir.Symbol("T", 512), ir.D(64), false),
		"no symbol":      rowSum(ir.F32, ir.D(512), ir.D(64), true),
	} {
		key := TuningKey(k)
		if other, taken := seen[key]; taken {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[key] = name
	}
}

func TestTuningHash(t *testing.T) {
	one := device.Tuning{"a": {Schedule: kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 64}},
		Micros: 2}}
	again := device.Tuning{"a": {Schedule: kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 64}},
		Micros: 3}}
	other := device.Tuning{"a": {Schedule: kernel.Points{Launch: kernel.Launch{Variant: kernel.VarMap, Workgroup: 32}},
		Micros: 2}}
	if one.Hash() != again.Hash() || one.Hash() == other.Hash() || device.Tuning(nil).Hash() != "" ||
		(device.Tuning{}).Hash() != "" {
		t.Errorf("hashes %s, %s, %s", one.Hash(), again.Hash(), other.Hash())
	}
}

// TestTuningHashCountsAllOfASchedule: a field that schedules get counts from the start.
func TestTuningHashCountsAllOfASchedule(t *testing.T) {
	hash := func(s kernel.Schedule) string { return device.Tuning{"a": {Schedule: s}}.Hash() }
	seen := map[string]string{}
	add := func(s kernel.Schedule, what string) {
		h := hash(s)
		if other, taken := seen[h]; taken {
			t.Errorf("schedules that differ in %s, or in %s, have one hash", what, other)
		}
		seen[h] = what
	}
	for v := range families {
		zero, err := kernel.ParseSchedule([]byte(`{"variant":"` + string(v) + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		add(zero, string(v))
		for _, field := range reflect.VisibleFields(reflect.TypeOf(zero)) {
			if field.Anonymous { // promoted fields are visible too
				continue
			}
			s := reflect.New(reflect.TypeOf(zero)).Elem()
			s.Set(reflect.ValueOf(zero))
			name := string(v) + " " + field.Name
			switch f := s.FieldByIndex(field.Index); f.Kind() {
			case reflect.Int:
				f.SetInt(1)
			case reflect.Bool:
				f.SetBool(true)
			case reflect.String:
				f.SetString(string(v) + "x")
			default:
				t.Fatalf("%s is a %s", name, f.Kind())
			}
			add(s.Interface().(kernel.Schedule), name)
		}
	}
}

// TestVariants: for kernels of every family there are schedules to measure, all of them legal and
// different, Select's first. Each kernel is looked at on two profiles, neighbours on other ones.
func TestVariants(t *testing.T) {
	profiles, each := device.Kinds(), 1
	if os.Getenv(pairs.Env) == "all" {
		each = 2
	}
	for i, what := range slices.Sorted(maps.Keys(samples)) {
		for j := range each {
			k, name := samples[what], profiles[(i+j*len(profiles)/2)%len(profiles)]
			caps := profile(t, name)
			all := Variants(k, caps)
			usual, _, err := Select(k, caps)
			if err != nil {
				if len(all) != 0 {
					t.Errorf("%s on %s: %d variants of a kernel that cannot run", what, name, len(all))
				}
				continue
			}
			if len(all) < 1 || len(all) > maxVariants || all[0].Schedule != usual {
				t.Errorf("%s on %s: %d variants", what, name, len(all))
				continue
			}
			seen := map[kernel.Schedule]bool{}
			for _, c := range all {
				if seen[c.Schedule] {
					t.Errorf("%s on %s: %v is there twice", what, name, c.Schedule)
				}
				seen[c.Schedule] = true
				// The tuner compares partial results, so each split must have the same keys.
				of, have := AttentionTileOf(usual), AttentionTileOf(c.Schedule)
				if of.Splits > 1 && (have.Splits != of.Splits || have.Step != of.Step) {
					t.Errorf("%s on %s: splits of %v have other keys than splits of %v", what, name, c.Schedule, usual)
				}
				if _, err := New(k, c.Schedule, caps); err != nil {
					t.Errorf("%s on %s: %v", what, name, err)
				}
			}
		}
	}
}

// TestVariantsAreWide: the tuner measures every variant of a family for the shapes that the variant is meant for.
func TestVariantsAreWide(t *testing.T) {
	for what, want := range map[string][]kernel.Variant{
		"map 1M f32":        {kernel.VarMap},
		"softmax 64Kx8":     {kernel.VarRowSerial, kernel.VarRowGroup},
		"softmax 4096x4096": {kernel.VarRowGroup},
		"matmul f16 512":    {kernel.VarMatTile, kernel.VarCoopMat, kernel.VarCoopMat2},
		"matvec 8 rows":     {kernel.VarMatVec, kernel.VarMatTile},
		"matvec q4_0":       {kernel.VarMatVec},
		"prefill 4096":      {kernel.VarFlashTile},
	} {
		all := Variants(samples[what], profile(t, "nvidia-h100"))
		have := map[kernel.Variant]int{}
		for _, c := range all {
			have[c.Schedule.Config().Variant]++
		}
		for _, v := range want {
			if have[v] < 2 {
				t.Errorf("%s: %d schedules of %s among %d: %v", what, have[v], v, len(all), have)
			}
		}
	}
}

// FuzzCheck: no schedule, whatever file it is from, makes Check panic.
func FuzzCheck(f *testing.F) {
	variants := append([]kernel.Variant{""}, AllVariants()...)
	caps, err := device.Profile("nvidia-h100")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(1, 256, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	f.Add(4, 256, 4, 0, 0, 128, 128, 16, 8, 8, 0, 0)
	f.Add(6, 128, 4, 0, 0, 64, 64, 32, 2, 2, 16, 32)
	f.Add(11, 128, 4, 0, 0, 64, 64, 16, 4, 4, 1, 32)
	f.Fuzz(func(t *testing.T, variant, wg, vec, lanes, cache, m, n, k, tm, tn, frag, subgroup int) {
		l := kernel.Launch{Variant: variants[uint(variant)%uint(len(variants))], Workgroup: wg, Vec: vec,
			Subgroup: subgroup}
		tile := kernel.Tile{TileM: m, TileN: n, TileK: k}
		matrix := kernel.MatrixTile{Launch: l, Tile: tile, Band: lanes}
		fragment, flash := kernel.Fragment{FragM: frag, FragN: frag, FragK: frag},
			kernel.Flash{Heads: frag, Splits: lanes}
		all := []kernel.Schedule{nil, l, kernel.Points{Launch: l, Coarsen: cache},
			kernel.Lanes{Launch: l, LanesPerRow: lanes},
			kernel.MapTile{Launch: l, TileM: m, TileN: n}, kernel.Row{Launch: l, LanesPerRow: lanes, Cache: cache},
			kernel.MatTile{Launch: l, Tile: tile, ThreadM: tm, ThreadN: tn},
			kernel.MatDirect{Launch: l, Tile: tile, ThreadM: tm, ThreadN: tn},
			kernel.MatVec{Launch: l, Tile: tile, LanesPerRow: lanes, ThreadM: tm, ThreadN: tn, Coarsen: cache},
			kernel.Skinny{Launch: l, Tile: tile, SubgroupsN: tm, SubgroupsK: tn, Fragment: fragment},
			kernel.CoopMat{MatrixTile: matrix, SubgroupsM: tm, SubgroupsN: tn, Fragment: fragment},
			kernel.CoopMat2{MatrixTile: matrix, PiecesM: tm, PiecesN: tn, Unroll: cache},
			kernel.FlashTile{Launch: l, Tile: tile, ThreadM: tm, ThreadN: tn, Flash: flash},
			kernel.FlashVec{Launch: l, LanesPerRow: lanes, TileM: m, TileN: n, ThreadM: tm, ThreadN: tn, Flash: flash},
			kernel.FlashMatrix{Launch: l, TileM: m, TileN: n, Stages: cache, SubgroupsN: tm, Fragment: fragment,
				Flash: flash}}
		for _, sample := range samples {
			for _, s := range all {
				_, _ = New(sample, s, caps)
			}
		}
	})
}
