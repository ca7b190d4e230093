package keval

import (
	"fmt"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// group writes the rows of the table for the current group number.
func (r *run) group(fold int64) error {
	if err := r.k.CheckGroup(); err != nil {
		return err
	}
	g, number := r.k.Group, r.at[0]
	before, own := int64(0), []int64{} // table rows of smaller numbers; elements of this number
	counts := make([]int64, r.k.Parallel[0].Add)
	err := r.eachElement(fold, func(j int64) error {
		of, err := r.index(g.Of)
		if err != nil {
			return err
		}
		if of < 0 || of >= int64(len(counts)) {
			return fmt.Errorf("it is of group %d of %d", of, len(counts))
		}
		counts[of]++
		if of == number {
			own = append(own, j)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range counts[:number] {
		before += (n + g.Rows - 1) / g.Rows
	}
	groups := (int64(len(own)) + g.Rows - 1) / g.Rows
	end := before + groups
	if number == int64(len(counts))-1 { // unused table rows
		end = g.Groups
	}
	for i := before; i < end; i++ {
		if err := r.writeGroup(i, i < before+groups, own[min((i-before)*g.Rows, int64(len(own))):]); err != nil {
			return err
		}
	}
	return nil
}

// writeGroup writes row i of the table: unused, or with elements of the current group number.
func (r *run) writeGroup(i int64, used bool, rest []int64) error {
	g := r.k.Group
	for c := range 1 + g.Rows {
		v := int64(-1)
		switch {
		case c == 0 && used:
			v = r.at[0]
		case c > 0 && c-1 < int64(len(rest)):
			v = rest[c-1]
		}
		if err := r.store(g.Bind, i*(1+g.Rows)+c, number{i: v}, r.k.Bindings[g.Bind].DType); err != nil {
			return fmt.Errorf("group %d: %w", i, err)
		}
	}
	return nil
}

// guarded reports whether the guard skips the current point.
func (r *run) guarded() (bool, error) {
	if r.k.Guard == nil {
		return false, nil
	}
	for _, cond := range []*kernel.Expr{r.k.Guard.Point, r.k.Guard.Batch, r.k.Guard.Row, r.k.Guard.Col} {
		if cond == nil {
			continue
		}
		if v, err := r.value(cond); err != nil || v.i == 0 {
			return true, err
		}
	}
	return false, nil
}
