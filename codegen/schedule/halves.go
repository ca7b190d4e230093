package schedule

import (
	"fmt"
	"slices"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// This file chooses schedules of exact matmuls of many rows by blocks: each element of a row is the sum of two f16
// values, and quants are f16 integers. So matrix units do twice the work of f16 rows, and round nothing.

// minHalvesRows is the minimum number of rows for which storing them as two f16 values is considered. Fewer rows are
// split, or become digits, in the kernel that multiplies them.
const minHalvesRows = maxSkinnyRows + 1

// halvesCost estimates the time in nanoseconds, in a tile, of a matmul with rows that are stored as sums of two f16
// values. Cooperative matrices multiply both values by each weight.
func (h heuristics) halvesCost(tl matrixTile, sh matShape) float64 {
	return h.matrixTime(tl, sh.workgroups(tl.M, tl.N), sh.K, h.MatrixF16/2)
}

// halvesTime estimates the time in nanoseconds of a matmul with rows stored as two f16 values, in its best tile. It is
// 0 if the device has no tiles for that.
func (h heuristics) halvesTime(sh matShape) float64 {
	return least(h.halvesTiles, func(tl matrixTile) float64 { return h.halvesCost(tl, sh) })
}

// halves lists the schedules of a matmul, by increasing expected time. Several matmuls in one kernel are slower than
// one after the other (M-halves), and fusion does not join them.
func (h heuristics) halves(k *kernel.Kernel, how Skinny, caps device.Caps) []Candidate {
	sh := matShapeOf(k)
	if len(k.MatMuls) > 1 {
		return nil
	}
	var all []ranked
	for _, tl := range h.halvesTiles {
		if s, ok := tl.halvesSchedule(how, caps); ok {
			reason := fmt.Sprintf("%dx%dx%d of two f16 an element on matrix units, in tiles of %dx%d", sh.M, sh.N, sh.K,
				s.TileM, s.TileN)
			all = append(all, ranked{Candidate{s, reason}, h.halvesCost(tl, sh)})
		}
	}
	return byCost(all)
}

// halvesSchedule returns the schedule of a tile, and false if the device has no fragments for it. how describes the
// format of the blocks and rows. A strip is the how.Strip quants that share a scale, and the schedule has the largest
// fragments that divide it. A step of the contraction has at least the how.Span elements that are decoded together.
func (tl matrixTile) halvesSchedule(how Skinny, caps device.Caps) (s kernel.Skinny, ok bool) {
	f, sub := device.MatrixShape{}, subgroupOf(caps)
	for _, m := range subgroupMatrices(caps, ir.F16, ir.F32) {
		if how.Strip%int(m.K) == 0 && m.N >= f.N && m.K >= f.K {
			f, ok = m, true
		}
	}
	return kernel.Skinny{Launch: kernel.Launch{Variant: kernel.VarSkinny, Vec: 4, Subgroup: sub,
		Workgroup: tl.SubgroupsM * tl.SubgroupsN * sub}, Tile: kernel.Tile{TileM: tl.M, TileN: tl.N, TileK: max(tl.K, how.Span)},
		SubgroupsM: tl.SubgroupsM, SubgroupsN: tl.SubgroupsN, SubgroupsK: 1, Stages: tl.Stages,
		Fragment: kernel.Fragment{FragM: int(f.M), FragN: int(f.N), FragK: int(f.K)}}, ok
}

// splitsRows reports whether an exact matmul by blocks is faster if another kernel first stores its rows as sums of two
// f16 values. That kernel reads the rows twice and writes as many bytes. splitsRows returns false unless some tile
// gives every core a workgroup, because the speed of tiles is known only then.
func (h heuristics) splitsRows(w kernel.Work, caps device.Caps) bool {
	f, ok := SkinnyFormatOf(w.Format)
	how := Skinny{SkinnyFormat: f, Element: ir.F16, Parts: 2, Halves: true}
	sh := matShape{Batch: 1, M: w.Rows.Max(), N: w.Columns.Max(), K: w.Depth.Max()}
	if !ok || !caps.Features.Storage16 || how.checkSupported(caps) != nil || sh.M < minHalvesRows ||
		len(h.halvesTiles) == 0 {
		return false
	}
	known := slices.ContainsFunc(h.halvesTiles, func(tl matrixTile) bool {
		s, ok := tl.halvesSchedule(how, caps)
		return ok && sh.workgroups(tl.M, tl.N) >= h.cores && how.shared(s, 1) <= int(caps.MaxSharedMemory) &&
			DivisibleBy(w.Depth, s.TileK)
	})
	before := least(h.tiles, func(tl ratedTile) float64 { return h.tileTime(tl, sh) })
	const passes = 3 // over the rows, of 4 bytes an element: two reads and a write
	storing := passes*4*float64(sh.M*sh.K)/h.CopyGBps + h.LaunchNs
	return known && h.halvesTime(sh)+storing < before
}
