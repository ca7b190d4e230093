package main

import (
	"cmp"
	"math"
	"slices"
)

type point struct{ x, y float64 }

func (p point) plus(q point) point        { return point{p.x + q.x, p.y + q.y} }
func (p point) times(k float64) point     { return point{p.x * k, p.y * k} }
func (p point) dot(q point) float64       { return p.x*q.x + p.y*q.y }
func (p point) length() float64           { return math.Hypot(p.x, p.y) }
func (p point) cross(q point) float64     { return p.x*q.y - p.y*q.x }
func (p point) scaled(x, y float64) point { return point{p.x * x, p.y * y} }

// box is a rectangle, possibly rotated, around a line of text: its top left corner, and its sides along the text and
// down.
type box struct{ at, along, down point }

func (b box) scaled(x, y float64) box {
	return box{b.at.scaled(x, y), b.along.scaled(x, y), b.down.scaled(x, y)}
}

// width returns the width of the box, scaled to the height of the models' input.
func (b box) width() int { return max(1, int(math.Ceil(height*b.along.length()/b.down.length()))) }

// turned returns the box for reading text that runs downwards in this one.
func (b box) turned() box { return box{b.at.plus(b.along), b.down, b.along.times(-1)} }

// corners returns the corners in order around the box.
func (b box) corners() [4]point {
	return [4]point{b.at, b.at.plus(b.along), b.at.plus(b.along).plus(b.down), b.at.plus(b.down)}
}

// findBoxes finds text in the detector's probabilities [h, w], like DBNet (Liao et al., 2020). Each region of likely
// pixels is the core of a line. The boxes are in reading order.
func findBoxes(likely []float32, w, h int) []box {
	const (
		threshold = 0.3 // of pixels
		sure      = 0.6 // of a region's mean
		smallest  = 3.0 // pixels of a side
		grow      = 1.5 // distance from a core to the edge of its line, in units of area / perimeter of the core
	)
	var boxes []box
	seen := make([]bool, len(likely))
	for start, p := range likely {
		if p <= threshold || seen[start] {
			continue
		}
		region, mean := regionAt(start, likely, seen, w, h, threshold)
		if mean < sure {
			continue
		}
		b := smallestBox(hull(region, w))
		long, short := b.along.length(), b.down.length()
		if min(long, short) < smallest {
			continue
		}
		// Move all four sides out by more pixels.
		more := grow * long * short / (2 * (long + short))
		right, down := b.along.times(more/long), b.down.times(more/short)
		b = box{b.at.plus(right.plus(down).times(-1)), b.along.plus(right.times(2)), b.down.plus(down.times(2))}
		if b.down.length() >= 1.5*b.along.length() { // text from top to bottom
			b = b.turned()
		}
		boxes = append(boxes, b)
	}
	return inOrder(boxes)
}

// regionAt returns the indices of all pixels above the threshold that are connected to pixel start, and the mean of
// their probabilities. It marks them in seen.
func regionAt(start int, likely []float32, seen []bool, w, h int, threshold float32) (region []int, mean float64) {
	seen[start] = true
	region = []int{start}
	sum := 0.0
	for i := 0; i < len(region); i++ {
		at := region[i]
		sum += float64(likely[at])
		x, y := at%w, at/w
		for ny := max(0, y-1); ny <= min(h-1, y+1); ny++ {
			for nx := max(0, x-1); nx <= min(w-1, x+1); nx++ {
				if next := ny*w + nx; likely[next] > threshold && !seen[next] {
					seen[next] = true
					region = append(region, next)
				}
			}
		}
	}
	return region, sum / float64(len(region))
}

// inOrder sorts boxes from top to bottom, and boxes on the same line from left to right.
func inOrder(boxes []box) []box {
	slices.SortFunc(boxes, func(a, b box) int { return cmp.Compare(a.at.y, b.at.y) })
	for i := range boxes {
		for k := i; k > 0 && boxes[k].at.x < boxes[k-1].at.x &&
			boxes[k].at.y-boxes[k-1].at.y < boxes[k].down.length()/2; k-- {
			boxes[k], boxes[k-1] = boxes[k-1], boxes[k]
		}
	}
	return boxes
}

// hull returns the corners of the convex hull of pixels, by Andrew's monotone chain.
func hull(region []int, w int) []point {
	var all []point
	for _, at := range region {
		x, y := float64(at%w), float64(at/w)
		all = append(all, point{x, y}, point{x + 1, y}, point{x, y + 1}, point{x + 1, y + 1})
	}
	slices.SortFunc(all, func(a, b point) int { return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.y, b.y)) })
	all = slices.Compact(all)
	half := func() (chain []point) {
		for _, p := range all {
			for n := len(chain); n > 1 && chain[n-1].plus(chain[n-2].times(-1)).
				cross(p.plus(chain[n-2].times(-1))) <= 0; n-- {
				chain = chain[:n-1]
			}
			chain = append(chain, p)
		}
		return chain[:len(chain)-1]
	}
	lower := half()
	slices.Reverse(all)
	return append(lower, half()...)
}

// smallestBox returns the box of least area around a convex shape. One of its sides lies on a side of the shape.
func smallestBox(corners []point) (smallest box) {
	least := math.Inf(1)
	for i, p := range corners {
		side := corners[(i+1)%len(corners)].plus(p.times(-1))
		u := side.times(1 / side.length())
		for math.Abs(u.y) > math.Abs(u.x) || u.x < 0 { // of the box's four directions, the one that goes right
			u = point{-u.y, u.x}
		}
		v := point{-u.y, u.x}
		low, high := point{math.Inf(1), math.Inf(1)}, point{math.Inf(-1), math.Inf(-1)}
		for _, q := range corners {
			a, b := q.dot(u), q.dot(v)
			low, high = point{min(low.x, a), min(low.y, b)}, point{max(high.x, a), max(high.y, b)}
		}
		if area := (high.x - low.x) * (high.y - low.y); area < least {
			least = area
			smallest = box{u.times(low.x).plus(v.times(low.y)), u.times(high.x - low.x), v.times(high.y - low.y)}
		}
	}
	return smallest
}
