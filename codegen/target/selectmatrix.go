package target

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// matrixUnits lists the tiles on matrix units for a product that may take its
// operands in 16 bits, the one expected to be fastest first.
func (t tuning) matrixUnits(k *kernel.Kernel, caps Caps) []Candidate {
	if _, ok := MatrixDType(k); !ok {
		return nil
	}
	sh := matShapeOf(k)
	type ranked struct {
		Candidate
		cost float64
	}
	var all []ranked
	for _, tl := range t.matrixTiles {
		s, ok := tl.schedule(k, caps)
		if !ok {
			continue
		}
		groups := min(sh.Batch, unknownExtent>>24) * ceilDiv(sh.M, int64(tl.M)) * ceilDiv(sh.N, int64(tl.N))
		reason := fmt.Sprintf("%dx%dx%d on matrix units in tiles of %dx%d: %d workgroups", sh.M, sh.N, sh.K, tl.M, tl.N, groups)
		all = append(all, ranked{Candidate{s, reason}, t.matrixCost(tl, groups)})
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		switch {
		case a.cost < b.cost:
			return -1
		case a.cost > b.cost:
			return 1
		}
		return 0
	})
	list := make([]Candidate, len(all))
	for i, r := range all {
		list[i] = r.Candidate
	}
	return list
}

// matrixCost estimates the time of a product per element of its contraction:
// the workgroups run in rounds of one per core, and a round takes as long
// whether all cores take part or one.
func (t tuning) matrixCost(tl matrixTile, groups int64) float64 {
	cores := max(t.fill/2, 1)
	return float64(ceilDiv(groups, cores)*int64(tl.M)*int64(tl.N)) / tl.Rate
}

// schedule fills a tile in for a kernel's dtype: fragments of the largest
// shape that the device has and the tile is a multiple of.
func (tl matrixTile) schedule(k *kernel.Kernel, caps Caps) (kernel.Schedule, bool) {
	s := kernel.Schedule{Variant: tl.Variant, Workgroup: tl.Workgroup, Vec: 4, TileM: tl.M, TileN: tl.N, TileK: tl.K}
	if tl.Variant == kernel.VarCoopMat2 {
		return s, true
	}
	s.Subgroup, s.SubgroupsM, s.SubgroupsN = int(caps.SubgroupSize), tl.SubgroupsM, tl.SubgroupsN
	s.Workgroup = s.Subgroup * tl.SubgroupsM * tl.SubgroupsN
	t, _ := MatrixDType(k)
	c := component(t)
	for _, m := range caps.Matrices {
		fits := m.A == c && m.B == c && m.C == "f32" && m.R == "f32" && m.Scope == ScopeSubgroup &&
			tl.M%(tl.SubgroupsM*int(m.M)) == 0 && tl.N%(tl.SubgroupsN*int(m.N)) == 0 && tl.K%int(m.K) == 0
		if fits && int(m.M*m.N*m.K) > s.FragM*s.FragN*s.FragK {
			s.FragM, s.FragN, s.FragK = int(m.M), int(m.N), int(m.K)
		}
	}
	return s, s.FragM > 0
}
