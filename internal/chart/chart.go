// Package chart draws lines over two axes as SVG.
package chart

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Style is the CSS of the drawings: class back is the background, head a title, note a remark, grid a grid line, roof a
// limit and line a curve. It follows the reader's color scheme.
const Style = `text{font:12px sans-serif;fill:#222}.head{font-size:14px;font-weight:bold}.note{fill:#555;font-size:11px}` +
	`.back{fill:#fff}.grid{stroke:#ddd}.roof{stroke:#222;stroke-width:1.5}.line{fill:none;stroke-width:1.5}` +
	`@media (prefers-color-scheme:dark){text{fill:#e6e6e6}.note{fill:#aaa}.back{fill:#15171b}.grid{stroke:#333}.roof{stroke:#ccc}}`

// Colors are distinct to most color-blind readers (Okabe and Ito 2008).
var Colors = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#767676"}

// Line is a name and points in the order of x. NaN points are left out.
type Line struct {
	Name string
	X, Y []float64
	// Marks draws the points as labelled dots, without lines.
	Marks []string
}

// Chart is a drawing. Its axes begin and end at round numbers around the points.
type Chart struct {
	Title, X, Y string // X and Y name the axes
	Lines       []Line
}

// The geometry, in pixels.
const (
	width, height = 960, 520
	left, right   = 70, 940
	top, bottom   = 60, 460
)

// axis maps numbers to pixels.
type axis struct{ from, step, to, first, last float64 }

// newAxis returns an axis around some numbers with about n round steps. first and last are the positions of its ends on
// the page.
func newAxis(lists [][]float64, n int, first, last float64) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, list := range lists {
		for _, v := range list {
			if isNumber(v) {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	if !(low <= high) {
		low, high = 0, 1 // there are no numbers
	}
	// All numbers are nearly equal: show a range around them.
	if !(high-low > 1e-9*(math.Abs(low)+math.Abs(high))) || math.IsInf(high-low, 0) {
		size := max(1, 1e-3*math.Abs(low))
		low, high = low-size/2, low+size/2
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/float64(n))))
	for _, more := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (high-low)/step > float64(n) {
			step *= more
		}
	}
	return axis{math.Floor(low/step) * step, step, math.Ceil(high/step) * step, first, last}
}

func isNumber(v float64) bool { return !math.IsNaN(v) && math.Abs(v) < 1e300 }

func (a axis) at(v float64) float64 { return a.first + (a.last-a.first)*(v-a.from)/(a.to-a.from) }

// ticks calls f with each round number on the axis and with its text.
func (a axis) ticks(f func(v float64, label string)) {
	// The digits after the point that show a.step. 1e-9 keeps log10 of a power of ten from rounding down.
	digits := max(0, -int(math.Floor(math.Log10(a.step)+1e-9)))
	// The limit ends the loop if the step is too small to change v.
	for i := 0; i <= 40; i++ {
		v := a.from + float64(i)*a.step
		if v > a.to+a.step/2 { // half a step is for rounding errors
			return
		}
		if digits > 6 || math.Abs(v) >= 1e9 {
			f(v, fmt.Sprintf("%.3g", v))
		} else {
			f(v, fmt.Sprintf("%.*f", digits, v))
		}
	}
}

// boxes are the areas of the page with text: left, top, right and bottom of each.
type boxes [][4]float64

// textBox estimates the area of a text that begins or ends at x, above y.
func textBox(x, y float64, text, anchor string) [4]float64 {
	wide := 6.5 * float64(len(text))
	if anchor == "end" {
		x -= wide
	}
	return [4]float64{x, y - 10, x + wide, y}
}

// labelAt returns a position for the label of a dot at (x, y), and the label's SVG text-anchor, and adds the label's
// box to b. The label is to the right or left of the dot, moved up or down so that it overlaps no other text. If every
// position overlaps some text, labelAt returns the first.
func (b *boxes) labelAt(x, y float64, name string) (tx, ty float64, anchor string) {
	var first [4]float64
	for i := range 10 {
		tx, ty, anchor = x+6, y-4, "start"
		if i%2 == 1 {
			tx, anchor = x-6, "end"
		}
		ty += []float64{0, 12, -12, 24, -24}[i/2]
		box := textBox(tx, ty, name, anchor)
		if i == 0 {
			first = box
		}
		if box[0] >= 0 && box[2] <= width && !b.overlaps(box) {
			*b = append(*b, box)
			return tx, ty, anchor
		}
	}
	*b = append(*b, first)
	return x + 6, y - 4, "start"
}

// overlaps reports whether a box overlaps one of the list.
func (b *boxes) overlaps(box [4]float64) bool {
	for _, other := range *b {
		if box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3] {
			return true
		}
	}
	return false
}

// Write writes the chart as an SVG drawing.
func (c Chart) Write(w io.Writer) error {
	var xs, ys [][]float64
	for _, l := range c.Lines {
		xs, ys = append(xs, l.X), append(ys, l.Y)
	}
	x, y := newAxis(xs, 10, left, right), newAxis(ys, 8, bottom, top)
	var b strings.Builder
	printf := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	x.ticks(func(v float64, label string) {
		printf(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`,
			x.at(v), top, x.at(v), bottom, x.at(v), bottom+18, label)
	})
	y.ticks(func(v float64, label string) {
		printf(`<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left, y.at(v), right, y.at(v), left-8, y.at(v)+4, label)
	})
	printf(`<text x="%d" y="%d" text-anchor="middle">%s</text>`, (left+right)/2, bottom+40, html.EscapeString(c.X))
	printf(`<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`, (top+bottom)/2,
		html.EscapeString(c.Y))
	var taken boxes
	for i, l := range c.Lines {
		taken = append(taken, textBox(float64(left+12+200*i), top-8, l.Name, "start"))
	}
	for i, l := range c.Lines {
		color := Colors[i%len(Colors)]
		printf(`<text x="%d" y="%d" style="fill:%s">%s</text>`, left+12+200*i, top-8, color, html.EscapeString(l.Name))
		l.draw(printf, x, y, &taken, color)
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">
<style>%s</style>
<rect class="back" width="%d" height="%d"/>
<text x="%d" y="26" class="head">%s</text>
%s</svg>
`, width, height, width, height, Style, width, height, left, html.EscapeString(c.Title), b.String())
	return err
}

// draw writes the points of a line: a circle and a label for each point that has a mark, and one polyline through the
// others. taken has the boxes of the texts drawn so far.
func (l Line) draw(printf func(format string, args ...any), x, y axis, taken *boxes, color string) {
	var points []string
	for j := range min(len(l.X), len(l.Y)) {
		if !isNumber(l.X[j]) || !isNumber(l.Y[j]) {
			continue
		}
		px, py := x.at(l.X[j]), y.at(l.Y[j])
		if j < len(l.Marks) {
			tx, ty, anchor := taken.labelAt(px, py, l.Marks[j])
			printf(`<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+
				`<text class="note" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, px, py, color, tx, ty, anchor,
				html.EscapeString(l.Marks[j]))
			continue
		}
		points = append(points, fmt.Sprintf("%.1f,%.1f", px, py))
	}
	if len(points) > 0 {
		printf(`<polyline class="line" stroke="%s" points="%s"/>`, color, strings.Join(points, " "))
	}
}
