package schedule

import (
	"testing"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// TestRegistersSelect: schedules that need more registers than an invocation of their workgroup has give way to others.
func TestRegistersSelect(t *testing.T) {
	d := ir.D
	wide, narrow := attention(d(16), one, d(4096), d(4096), d(256)), attention(d(16), one, d(4096), d(4096), d(128))
	column := matMul(one, one, d(14336), d(14336), ir.F16, true)
	for _, c := range []struct {
		what, profile string
		k             *kernel.Kernel
		of            string // in JSON
		want          float64
	}{
		{"keys of 256 elements", "amd-rdna3", wide, "subgroups_n", 2},
		{"keys of 256 elements, operands shared out", "amd-rdna4", wide, "tile_n", 32},
		{"keys of 128 elements", "amd-rdna3", narrow, "tile_n", 64},
		{"keys of 256 elements", "nvidia-ada-nvk", wide, "subgroups_n", 2},
		{"keys of 128 elements", "nvidia-ada-nvk", narrow, "tile_n", 32},
		{"28 steps written out", "qualcomm-adreno630", column, "lanes_per_row", 16},
		{"blocks of sixteen scales", "qualcomm-adreno630", blockMul(1, 4096, 14336, ir.Q3_K, true),
			"thread_n", 2},
		{"blocks of one scale", "qualcomm-adreno630", blockMul(1, 4096, 14336, ir.Q4_0, true),
			"thread_n", 4},
		{"a row of three groups", "qualcomm-adreno630", blockMul(1, 4096, 11008, ir.Q4_0, true),
			"workgroup", 384},
		{"a row of three groups", "nvidia-h100", blockMul(1, 4096, 11008, ir.Q4_0, true),
			"workgroup", 704},
	} {
		s, reason, err := Select(c.k, profile(t, c.profile))
		if err != nil || kernel.Numbers(s)[c.of] != c.want {
			t.Errorf("%s on %s: %s (%s), error %v, want %v", c.what, c.profile, s, reason, err, c.want)
		}
	}
}

// TestRegistersOfPartsOfBlocks: the parts of a contraction that is split may end within blocks, which then are read
// element by element.
func TestRegistersOfPartsOfBlocks(t *testing.T) {
	for _, name := range device.Profiles() {
		for _, rows := range []int{1, 2, 8, 9} {
			k := blockMul(rows, 64, 320, ir.Q2_K, true) // a part of 1280
			s, _, err := Select(k, profile(t, name))
			if vec, _ := s.(kernel.MatVec); err != nil || vec.TileK != 0 {
				t.Errorf("%d rows on %s: %s, error %v, want no run of a block", rows, name, s, err)
			}
		}
	}
}

// TestRegistersOfCompiler: of two compilers for the same devices, one handles kernels well that spill with the other.
func TestRegistersOfCompiler(t *testing.T) {
	caps := profile(t, "nvidia-h100")
	caps.Features.CooperativeMatrix2 = false
	chosen, reason, err := Select(attention(ir.D(16), one, ir.D(4096), ir.D(4096), ir.D(256)), caps)
	if s, _ := chosen.(kernel.FlashMatrix); err != nil || s.TileM != 128 || FlashParts(s) != 1 {
		t.Errorf("keys of 256 elements: %s (%s), error %v, want 128 rows, no subgroups that share them", chosen, reason,
			err)
	}
}

// TestRegistersOfRow: radv writes loops over a short row out, and keeps it from one to the next.
func TestRegistersOfRow(t *testing.T) {
	s := kernel.Row{Launch: kernel.Launch{Variant: kernel.VarRowSerial, Workgroup: 64, Vec: 1}, LanesPerRow: 1}
	for _, c := range []struct {
		profile string
		length  int
		softmax bool
		want    int
	}{{"amd-rdna3", 128, true, 156}, {"amd-rdna3", 128, false, 28}, {"amd-rdna3", 4096, true, 28},
		{"nvidia-ada-nvk", 128, true, 28}} {
		k := rowSum(ir.F32, ir.D(4096), ir.D(c.length), c.softmax)
		if got := Registers(k, s, profile(t, c.profile)); got != c.want {
			t.Errorf("a row of %d on %s: %d registers, want %d", c.length, c.profile, got, c.want)
		}
	}
}

// TestRegistersOfWorkgroup: the registers of a core are for all of a workgroup.
func TestRegistersOfWorkgroup(t *testing.T) {
	k := blockMul(1, 4096, 14336, ir.IQ3_S, true)
	s := kernel.MatVec{Launch: kernel.Launch{Variant: kernel.VarMatVec, Workgroup: 512, Subgroup: 32},
		Tile: kernel.Tile{TileM: 1, TileK: 32}, LanesPerRow: 64, ThreadM: 1, ThreadN: 8}
	s.RoundRows, s.Tables, s.Copies = true, true, 16
	for _, c := range []struct {
		profile   string
		workgroup int
		want      bool
	}{{"nvidia-ada-nvk", 512, true}, {"nvidia-ada-nvk", 1024, false}, {"nvidia-h100", 1024, true}} {
		caps := profile(t, c.profile)
		s.Workgroup = c.workgroup
		if got := heuristicsOf(caps).fits(k, s); got != c.want {
			t.Errorf("%d registers for each of %d invocations on %s: fits is %v", Registers(k, s, caps), s.Workgroup,
				c.profile, got)
		}
	}
}
