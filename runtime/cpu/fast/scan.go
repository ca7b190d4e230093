package fast

import "github.com/vkc-go/vkc/ir"

// scan computes an op that returns the running results of a reduction, such as cumsum. For each group it first copies
// the elements to the output, and then folds them in place.
func (r *foldRows) scan() error {
	groups := r.groups()
	by, attrs := reducers[r.node.Op().Info().Running], r.node.Attrs()
	s := scanner{reducer: by, sums: by == reducers[ir.OpSum], exclusive: attrs.Bool("exclusive"),
		reverse: attrs.Bool("reverse"), restart: attrs.Int("restart")}
	return r.call.Parallel(len(groups), r.work(4*r.n*groups[0].count), func(_, task int) {
		g := r.group(groups[task])
		g.run(g.each, nil, 0, r.n, nil)
		if r.across {
			s.rows(r.n, g.count, func(k int) []float32 { return r.call.Out[r.at(g.from, k):][:g.count] })
			return
		}
		for row := g.from; row < g.from+g.count; row++ {
			s.row(r.call.Out[row*r.n : (row+1)*r.n])
		}
	})
}

// scanner computes running results.
type scanner struct {
	*reducer
	sums, exclusive, reverse bool
	restart                  int // the number of elements after which the results restart; 0 means never
}

// row replaces the elements of a row by their running results.
func (s *scanner) row(row []float32) {
	acc := s.first
	for i := range row {
		if s.restart > 0 && i%s.restart == 0 {
			acc = s.first
		}
		if s.reverse {
			i = len(row) - 1 - i
		}
		before := acc
		if x := float64(row[i]); s.sums { // faster than a call of next
			acc += x
		} else {
			acc = s.next(acc, x)
		}
		if s.exclusive {
			row[i] = float32(before)
		} else {
			row[i] = float32(acc)
		}
	}
}

// rows is row for several neighbouring rows at once. at returns element k of each row.
func (s *scanner) rows(n, count int, at func(k int) []float32) {
	acc, by := make([]float64, count), s.start()
	for k := range n {
		if k == 0 || s.restart > 0 && k%s.restart == 0 {
			for i := range acc {
				acc[i] = s.first
			}
		}
		if s.reverse {
			k = n - 1 - k
		}
		list := at(k)
		if !s.exclusive {
			by.each(acc, list)
		}
		for i, x := range list {
			list[i] = float32(acc[i])
			if s.exclusive {
				acc[i] = s.next(acc[i], float64(x))
			}
		}
	}
}
