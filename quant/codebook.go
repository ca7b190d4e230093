package quant

import "math"

// codebook is the table of an IQ format, arranged to find the entry of least cost without trying all. An entry gives
// the levels of 8 elements with three possible levels each, or of 4 elements with eight levels each. A quarter of an
// entry is two elements or one, so it has 3*3 or 8 possible values, which its code numbers from 0. A half has the code
// 9*a + b for the codes a and b of its quarters. Entries are grouped by the code of their first half. So one comparison
// excludes all entries that begin with an expensive half.
type codebook struct {
	elems  int        // elements per entry: 8 or 4
	levels [8]float32 // the levels in ascending order, three or eight
	top    float32    // the largest of them
	starts [maxHalves + 1]uint16
	order  []arranged // entries with first half h are at starts[h] to starts[h+1]-1
	index  []uint16   // index of each in the format's table
	digits [][8]uint8 // levels of each
}

// arranged are the codes of the halves of an entry.
type arranged struct{ first, second uint8 }

const (
	maxQuarters = 9                         // codes of a quarter: 3*3, or 8
	maxHalves   = maxQuarters * maxQuarters // codes of a half
)

// newCodebook8 arranges a table of entries of 8 elements with three levels. Byte i of an entry is the level of element
// i.
func newCodebook8(table []uint64, levels [3]int8) *codebook {
	c := &codebook{elems: 8}
	c.arrange(len(table), levels[:], func(e, i int) uint8 { return uint8(table[e] >> (8 * i)) })
	return c
}

// newCodebook4 arranges a table of entries of 4 elements with eight levels. Byte i of an entry is the level of element
// i.
func newCodebook4(table []uint32, levels [8]int8) *codebook {
	c := &codebook{elems: 4}
	c.arrange(len(table), levels[:], func(e, i int) uint8 { return uint8(table[e] >> (8 * i)) })
	return c
}

// arrange sets the tables of a codebook with n entries, grouped by their first half so that a search can skip a group.
// levels lists the values of elements in ascending order, and at returns element i of entry e.
func (c *codebook) arrange(n int, levels []int8, at func(e, i int) uint8) {
	var digitOf [256]uint8
	for i, v := range levels {
		c.levels[i] = float32(v)
		c.top = float32(v)
		digitOf[uint8(v)] = uint8(i)
	}
	var buckets [maxHalves][]int
	digits, codes := make([][8]uint8, n), make([]arranged, n)
	for e := range n {
		for i := range c.elems {
			digits[e][i] = digitOf[at(e, i)]
		}
		codes[e] = c.codesOf(&digits[e])
		buckets[codes[e].first] = append(buckets[codes[e].first], e)
	}
	for half, bucket := range buckets {
		for _, e := range bucket {
			c.order = append(c.order, codes[e])
			c.index = append(c.index, uint16(e))
			c.digits = append(c.digits, digits[e])
		}
		c.starts[half+1] = uint16(len(c.order))
	}
}

// codesOf returns the codes of the halves of an entry, given the number of the level of each of its elements.
func (c *codebook) codesOf(d *[8]uint8) arranged {
	if c.elems == 4 {
		return arranged{maxQuarters*d[0] + d[1], maxQuarters*d[2] + d[3]}
	}
	return arranged{
		maxQuarters*(3*d[0]+d[1]) + 3*d[2] + d[3],
		maxQuarters*(3*d[4]+d[5]) + 3*d[6] + d[7],
	}
}

// quarterCosts has the cost of each code for each quarter of an entry. The cost is the weighted squared error if the
// quarter's elements are stored as the levels that the code names.
type quarterCosts [4][maxQuarters]float32

// set computes the cost of each code of each quarter: the squared errors between its levels times scale and the
// targets t, with weights w. An entry has elems elements; t and w have as many.
func (q *quarterCosts) set(elems int, levels *[8]float32, scale float32, t, w []float32) {
	var scaled [8]float32
	for i, level := range levels {
		scaled[i] = scale * level
	}
	if elems == 4 {
		q.set4(&scaled, (*[4]float32)(t), (*[4]float32)(w))
	} else {
		q.set8((*[3]float32)(scaled[:]), (*[8]float32)(t), (*[8]float32)(w))
	}
}

// set4 computes the costs for entries of four elements: a quarter is one element, and its code is the number of its
// level. levels are scaled. t has the targets and w the weights of the elements.
func (q *quarterCosts) set4(levels *[8]float32, t, w *[4]float32) {
	for i := range q {
		for l, level := range levels {
			e := t[i] - level
			q[i][l] = w[i] * e * e
		}
		q[i][8] = math.MaxFloat32 / 8 // there is no such code; a sum of four such costs is finite
	}
}

// set8 computes the costs for entries of eight elements: quarter i is elements 2i and 2i+1, and its code is 3*k + l for
// the numbers k and l of their levels. levels are scaled. t has the targets and w the weights of the elements.
func (q *quarterCosts) set8(levels *[3]float32, t, w *[8]float32) {
	for i := range q {
		var second [3]float32
		for k, level := range levels {
			e := t[2*i+1] - level
			second[k] = float32(w[2*i+1] * e * e)
		}
		for k, level := range levels {
			e := t[2*i] - level
			first := float32(w[2*i] * e * e)
			q[i][3*k] = first + second[0]
			q[i][3*k+1] = first + second[1]
			q[i][3*k+2] = first + second[2]
		}
	}
}

// nearest returns the position in c.order, and the cost, of the entry with the least cost. Among entries of equal cost
// it prefers the entry at position hint, and then the first. It tries hint first, because a good guess excludes more
// entries.
func (c *codebook) nearest(q *quarterCosts, hint int) (pos int, cost float32) {
	var second [maxHalves]float32
	for i, a := range q[2] {
		row := (*[maxQuarters]float32)(second[maxQuarters*i:])
		for j, b := range q[3] {
			row[j] = a + b
		}
	}
	least := minOf(&q[2]) + minOf(&q[3]) // the least cost of any second half
	guess := c.order[hint]
	pos, cost = hint, q[0][guess.first/maxQuarters]+q[1][guess.first%maxQuarters]+second[guess.second]
	half := -1 // the code of the first half with quarter costs a and b
	for _, a := range q[0] {
		for _, b := range q[1] {
			half++
			first := a + b
			if first+least >= cost {
				continue // no entry of this group can be better
			}
			lo := int(c.starts[half])
			for k, code := range c.order[lo:c.starts[half+1]] {
				if v := first + second[code.second]; v < cost {
					pos, cost = lo+k, v
				}
			}
		}
	}
	return pos, cost
}

// minOf returns the smallest cost.
func minOf(q *[maxQuarters]float32) float32 {
	m := q[0]
	for _, v := range q[1:] {
		if v < m {
			m = v
		}
	}
	return m
}
