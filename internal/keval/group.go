package keval

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/internal/bailout"
	"github.com/vkc-go/vkc/internal/ceil"
)

// computeGroups writes the rows of the table for the current group number.
func (r *run) computeGroups(fold int64) {
	bailout.Check(r.k.CheckGroup())
	g, number := r.k.Group, r.at[0]
	before, own := int64(0), []int64{} // table rows of smaller numbers; elements of this number
	counts := make([]int64, r.k.Parallel[0].Add)
	r.eachElement(fold, func(j int64) {
		of := r.index(g.Of)
		if of < 0 || of >= int64(len(counts)) {
			fail("it is of group %d of %d", of, len(counts))
		}
		counts[of]++
		if of == number {
			own = append(own, j)
		}
	})
	for _, n := range counts[:number] {
		// rounded up: a table row has elements of one number only
		before += ceil.Div(n, g.Rows)
	}
	groups := ceil.Div(int64(len(own)), g.Rows)
	end := before + groups
	if number == int64(len(counts))-1 { // unused table rows
		end = g.Groups
	}
	for i := before; i < end; i++ {
		// A row of the table begins g.Rows elements after the one before.
		r.writeGroup(i, i < before+groups, own[min((i-before)*g.Rows, int64(len(own))):])
	}
}

// writeGroup writes row i of the table: the current group number and the elements `rest` if the row is used, and
// otherwise -1 everywhere.
func (r *run) writeGroup(i int64, used bool, rest []int64) {
	g := r.k.Group
	r.doing, r.number = "group", int(i) // for errors
	row := slices.Repeat([]int64{-1}, int(1+g.Rows))
	if used {
		row[0] = r.at[0]
		copy(row[1:], rest)
	}
	for column, v := range row {
		r.store(g.Bind, i*(1+g.Rows)+int64(column), number{i: v}, r.k.Bindings[g.Bind].DType)
	}
}

// skipped reports whether the guard skips the current point.
func (r *run) skipped() bool {
	g := r.k.Guard
	if g == nil {
		return false
	}
	return slices.ContainsFunc([]*kernel.Expr{g.Point, g.Batch, g.Row, g.Col}, func(cond *kernel.Expr) bool {
		return cond != nil && r.value(cond).i == 0
	})
}
