package kernel_test

import (
	"encoding/json"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// TestScheduleText: schedules of tuning files are read and written in one flat form.
func TestScheduleText(t *testing.T) {
	for _, c := range []struct{ text, line string }{
		{`{"variant":"map","workgroup":64,"vec":4,"coarsen":2}`, "map wg=64 vec=4 coarsen=2"},
		{`{"variant":"map_tile","workgroup":256,"vec":4,"tile_m":64,"tile_n":32}`, "map_tile wg=256 vec=4 tile=64x32"},
		{`{"variant":"row_serial","workgroup":64,"vec":4,"lanes_per_row":1,"cache":16}`,
			"row_serial wg=64 vec=4 cache=16"},
		{`{"variant":"row_group","workgroup":128,"vec":2,"subgroup":32,"lanes_per_row":64,"cache":8}`,
			"row_group wg=128 lanes=64 cache=8 vec=2 subgroup=32"},
		{`{"variant":"row_windows","workgroup":64,"vec":1,"coarsen":4}`, "row_windows wg=64 windows=4"},
		{`{"variant":"scan_serial","workgroup":64,"vec":4,"lanes_per_row":1}`, "scan_serial wg=64 vec=4"},
		{`{"variant":"scan_group","workgroup":64,"vec":4,"subgroup":32,"lanes_per_row":32}`,
			"scan_group wg=64 lanes=32 vec=4 subgroup=32"},
		{`{"variant":"sort","workgroup":64,"vec":1,"lanes_per_row":64}`, "sort wg=64 lanes=64"},
		{`{"variant":"select","workgroup":64,"vec":1,"lanes_per_row":64,"cache":8}`, "select wg=64 cache=8"},
		{`{"variant":"quantize","workgroup":64,"vec":1,"lanes_per_row":8}`, "quantize wg=64 lanes=8"},
		{`{"variant":"group","workgroup":64,"vec":1}`, "group wg=64"},
		{`{"variant":"custom","workgroup":64,"vec":1}`, "custom wg=64"},
		{`{"variant":"tile","workgroup":256,"vec":4,"tile_m":128,"tile_n":64,"tile_k":16,"thread_m":8,"thread_n":4,` +
			`"stages":2,"paired":true,"steps":true}`, "tile wg=256 tile=128x64x16 thread=8x4 stages=2 paired steps"},
		{`{"variant":"direct","workgroup":16,"vec":4,"tile_m":16,"tile_n":64,"tile_k":8,"thread_m":16,"thread_n":4}`,
			"direct wg=16 tile=16x64x8 thread=16x4"},
		{`{"variant":"matvec","workgroup":64,"vec":4,"subgroup":32,"lanes_per_row":32,"tile_m":1,"tile_n":8,"tile_k":16,` +
			`"thread_m":1,"thread_n":4,"prefetch":"runs","prefetch_depth":2,"subnormals":true,"tables":true,"copies":4,"stage_rows":true,` +
			`"decode":"lookup","chained":true}`, "matvec wg=64 rows=1x8 vec=4 run=16 prefetch=runs:2 subnormals tables " +
			"copies=4 staged subgroup=32 lanes=32 lookup chained"},
		{`{"variant":"matvec","workgroup":384,"vec":4,"subgroup":32,"coarsen":7,"lanes_per_row":384,"tile_m":1,"tile_n":28,` +
			`"tile_k":32,"thread_m":1,"thread_n":4,"prefetch":"registers","round_rows":true,"digits":3,` +
			`"decode":"strips","int_dot":true}`, "matvec wg=384 rows=1x28 vec=4 run=32 prefetch=registers coarsen=7 rounds " +
			"digits=3 subgroup=32 lanes=384 strips int_dot"},
		{`{"variant":"matvec","workgroup":384,"vec":4,"subgroup":32,"coarsen":7,"lanes_per_row":384,"tile_m":1,"tile_n":28,` +
			`"tile_k":64,"thread_m":1,"thread_n":4,"prefetch":"cache","round_rows":true,"decode":"strips","int_dot":true}`,
			"matvec wg=384 rows=1x28 vec=4 run=64 prefetch=cache coarsen=7 rounds subgroup=32 lanes=384 strips int_dot"},
		{`{"variant":"matvec","workgroup":384,"vec":4,"subgroup":32,"coarsen":7,"lanes_per_row":384,"tile_m":1,"tile_n":28,` +
			`"tile_k":64,"thread_m":1,"thread_n":4,"prefetch":"sectors","prefetch_depth":2,"subnormals":true,"round_rows":true,"decode":"packed",` +
			`"int_dot":true}`, "matvec wg=384 rows=1x28 vec=4 run=64 prefetch=sectors:2 subnormals coarsen=7 rounds " +
			"subgroup=32 lanes=384 packed int_dot"},
		{`{"variant":"skinny","workgroup":256,"vec":4,"subgroup":32,"tile_m":8,"tile_n":64,"tile_k":128,"subgroups_n":4,` +
			`"frag_m":16,"frag_n":8,"frag_k":32,"subgroups_k":2}`,
			"skinny wg=256 tile=8x64x128 subgroups=4x2 fragment=16x8x32 subgroup=32"},
		{`{"variant":"coopmat","workgroup":256,"vec":4,"subgroup":32,"tile_m":128,"tile_n":128,"tile_k":32,"band":8,` +
			`"subgroups_m":2,"subgroups_n":4,"frag_m":16,"frag_n":16,"frag_k":16}`,
			"coopmat wg=256 tile=128x128x32 subgroups=2x4 fragment=16x16x16 band=8 subgroup=32"},
		{`{"variant":"coopmat2","workgroup":256,"vec":4,"tile_m":256,"tile_n":128,"tile_k":64,"band":4,"pieces_m":2,` +
			`"unroll":4,"hide_steps":true}`, "coopmat2 wg=256 tile=256x128x64 pieces=2x1 band=4 unroll=4 hidden"},
		{`{"variant":"flash_tile","workgroup":256,"vec":4,"subgroup":32,"tile_m":64,"tile_n":64,"tile_k":16,"thread_m":4,` +
			`"thread_n":4,"paired":true,"steps":true,"heads":4,"splits":2}`,
			"flash_tile wg=256 tile=64x64x16 thread=4x4 heads=4 paired steps splits=2 subgroup=32"},
		{`{"variant":"flash_vec","workgroup":256,"vec":4,"subgroup":32,"lanes_per_row":8,"tile_m":4,"tile_n":128,` +
			`"thread_m":4,"thread_n":4,"heads":4,"splits":8}`,
			"flash_vec wg=256 rows=4 heads=4 lanes=8 keys=4 splits=8 subgroup=32"},
		{`{"variant":"flash_coopmat","workgroup":256,"vec":4,"subgroup":32,"tile_m":64,"tile_n":32,"stages":2,` +
			`"subgroups_n":2,"frag_m":16,"frag_n":16,"frag_k":16,"heads":1,"splits":2}`,
			"flash_coopmat wg=256 tile=64x32 heads=1 fragment=16 shared=2 stages=2 splits=2 subgroup=32"},
	} {
		s, err := kernel.ParseSchedule([]byte(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if text, err := json.Marshal(s); err != nil || string(text) != c.text {
			t.Errorf("%s is written as %s, error %v", c.text, text, err)
		}
		if s.String() != c.line {
			t.Errorf("%s reads %q, want %q", c.text, s, c.line)
		}
	}
}

// TestScheduleOfOtherParameters: the parameters of another variant cannot be set.
func TestScheduleOfOtherParameters(t *testing.T) {
	for _, text := range []string{
		`{"variant":"map","workgroup":64,"vec":4,"tile_m":64}`,
		`{"variant":"sort","workgroup":64,"vec":1,"lanes_per_row":64,"cache":8}`,
		`{"variant":"coopmat","workgroup":64,"vec":4,"pieces_m":2}`,
		`{"variant":"direct","workgroup":64,"vec":4,"stages":2}`,
	} {
		if s, err := kernel.ParseSchedule([]byte(text)); err == nil {
			t.Errorf("%s is %s", text, s)
		}
	}
	s, err := kernel.ParseSchedule([]byte(`{"variant":"warp","workgroup":64,"vec":4,"tile_m":64}`))
	if err != nil || s != (kernel.Launch{Variant: "warp", Workgroup: 64, Vec: 4}) {
		t.Errorf("a schedule of an unknown variant: %v, %v", s, err)
	}
}
