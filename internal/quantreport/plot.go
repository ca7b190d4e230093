package main

import (
	"fmt"
	"math"
	"strings"
)

// plot returns an SVG drawing for light and dark pages with two panels of error over bits per weight: of random numbers
// and of the model.
func plot(r *results) string {
	top := &panel{y: 34, title: "Relative RMSE of normally distributed weights"}
	bottom := &panel{y: 34 + panelHeight + 78, title: "KL divergence of the next token's distribution from the f16 " +
		"model's (nats); hollow: with an importance matrix"}
	for _, m := range r.Formats {
		top.marks = append(top.marks, mark{name: m.Type.String(), bits: bits(m.Type), value: m.RMSE})
		kl := mark{name: m.Type.String(), bits: bits(m.Type), value: m.Model.KL}
		if m.Weighted != nil {
			kl.weighted = m.Weighted.KL
		}
		bottom.marks = append(bottom.marks, kl)
	}
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="%d">`+"\n",
		plotWidth, int(bottom.y)+panelHeight+50, fontSize)
	b.WriteString(plotStyle)
	for _, p := range []*panel{top, bottom} {
		p.spread()
		p.draw(&b)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

const plotStyle = `<style>
  .back { fill: #ffffff } text { fill: #1f2328 } .axis, .grid, .leader { stroke: #1f2328; fill: none }
  .grid { stroke-opacity: .13 } .leader { stroke-opacity: .45; stroke-width: .8 }
  .dot { fill: #0969da } .hollow { fill: #ffffff; stroke: #0969da; stroke-width: 1.5 } .link { stroke: #0969da; stroke-opacity: .5 }
  @media (prefers-color-scheme: dark) {
    .back, .hollow { fill: #0d1117 } text { fill: #e6edf3 } .axis, .grid, .leader { stroke: #e6edf3 }
    .dot { fill: #58a6ff } .hollow, .link { stroke: #58a6ff }
  }
</style>
<rect class="back" width="100%" height="100%"/>
`

// Sizes in the units of the drawing.
const (
	plotWidth   = 920
	panelHeight = 380
	panelLeft   = 64
	panelRight  = plotWidth - 16
	fontSize    = 12
	dotRadius   = 3.5
)

// The axis of bits is logarithmic too, since formats crowd at its low end.
const leastBits, mostBits = 1.45, 10.4

var bitTicks = []float64{1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9}

// mark is a format in a panel.
type mark struct {
	name     string
	bits     float64
	value    float64
	weighted float64 // the value with an importance matrix, or zero
	shift    float64 // to the right, so that formats with equal bits are next to each other
}

// panel is one diagram, its upper edge at y.
type panel struct {
	y     float64
	title string
	marks []mark
}

// spread shifts the marks of formats with the same bits, ordered by error.
func (p *panel) spread() {
	const distance = 13 // pixels between marks side by side
	for i := range p.marks {
		same, better := 0, 0
		for j, o := range p.marks {
			if o.bits != p.marks[i].bits {
				continue
			}
			same++
			if o.value < p.marks[i].value || o.value == p.marks[i].value && j < i {
				better++
			}
		}
		p.marks[i].shift = distance * (float64(better) - float64(same-1)/2)
	}
}

func (p *panel) x(bits float64) float64 {
	return panelLeft + (panelRight-panelLeft)*math.Log(bits/leastBits)/math.Log(mostBits/leastBits)
}

// span returns the range of the panel's values as exponents of 10, rounded outward.
func (p *panel) span() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, m := range p.marks {
		least, most = min(least, m.value), max(most, m.value)
		if m.weighted > 0 {
			least = min(least, m.weighted)
		}
	}
	return math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
}

func (p *panel) height(value float64) float64 {
	least, most := p.span()
	return p.y + panelHeight*(most-math.Log10(value))/(most-least)
}

// draw writes the panel as SVG: its title, axes, dots and labels. A label that is far from its dot has a line to it. A
// format measured with an importance matrix also has a hollow dot.
func (p *panel) draw(b *strings.Builder) {
	fmt.Fprintf(b, `<text x="%d" y="%.0f" font-weight="600">%s</text>`+"\n", panelLeft, p.y-12, p.title)
	p.drawAxes(b)
	labels := p.labels()
	for i, m := range p.marks {
		x, y := p.x(m.bits)+m.shift, p.height(m.value)
		if labels[i].far {
			lx, ly := labels[i].nearest(x, y)
			fmt.Fprintf(b, `<line class="leader" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", x, y, lx, ly)
		}
		if m.weighted > 0 {
			wy := p.height(m.weighted)
			fmt.Fprintf(b, `<line class="link" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", x, y, x, wy)
			fmt.Fprintf(b, `<circle class="hollow" cx="%.1f" cy="%.1f" r="%.1f"/>`+"\n", x, wy, dotRadius-0.5)
		}
		fmt.Fprintf(b, `<circle class="dot" cx="%.1f" cy="%.1f" r="%.1f"/>`+"\n", x, y, dotRadius)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f">%s</text>`+"\n", labels[i].x, labels[i].y+fontSize-2, m.name)
	}
}

// drawAxes writes the axes and grid lines.
func (p *panel) drawAxes(b *strings.Builder) {
	bottom := p.y + panelHeight
	for _, v := range bitTicks {
		x := p.x(v)
		fmt.Fprintf(b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x, p.y, x, bottom)
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%g</text>`+"\n", x, bottom+17, v)
	}
	least, most := p.span()
	for e := least; e <= most; e++ {
		y := p.height(math.Pow(10, e))
		fmt.Fprintf(b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`, panelLeft, y, panelRight, y)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n", panelLeft-8, y+4, math.Pow(10, e))
	}
	fmt.Fprintf(b, `<path class="axis" d="M%d %.1fV%.1fH%d"/>`+"\n", panelLeft, p.y, bottom, panelRight)
	fmt.Fprintf(b,
		`<text x="%d" y="%.1f" text-anchor="middle">bits per weight; formats with equal bits stand side by side</text>`+"\n", (panelLeft+panelRight)/2, bottom+36)
}

// box is a rectangle, for a label or a mark.
type box struct {
	x, y, w, h float64
	far        bool // a label that needs a line to its mark
}

func (a box) overlaps(b box) bool {
	return a.x < b.x+b.w && b.x < a.x+a.w && a.y < b.y+b.h && b.y < a.y+a.h
}

// nearest returns the point of the box that is closest to a point.
func (a box) nearest(x, y float64) (nearX, nearY float64) {
	return max(a.x, min(x, a.x+a.w)), max(a.y, min(y, a.y+a.h))
}

// obstacles returns the boxes that labels must not overlap: one for each format, around its dot and, if it has one, its
// hollow dot.
func (p *panel) obstacles() []box {
	list := make([]box, len(p.marks))
	for i, m := range p.marks {
		y := p.height(m.value)
		above, below := y, y
		if m.weighted > 0 {
			above, below = min(y, p.height(m.weighted)), max(y, p.height(m.weighted))
		}
		list[i] = box{x: p.x(m.bits) + m.shift - dotRadius, y: above - dotRadius, w: 2 * dotRadius,
			h: below - above + 2*dotRadius}
	}
	return list
}

// labels places the names of the marks: each at the nearest position around its mark that overlaps no mark, earlier
// label or edge.
func (p *panel) labels() []box {
	taken := p.obstacles()
	labels := make([]box, len(p.marks))
	for i, m := range p.marks {
		labels[i] = p.place(m, i, taken)
		taken = append(taken, labels[i])
	}
	return labels
}

// place returns a position for the label of mark i at which the label overlaps no box in taken, a list that begins with
// the boxes of all marks. The label must be nearer to mark i than to any other mark, unless a line connects the two.
func (p *panel) place(m mark, i int, taken []box) box {
	const step, turns = 7.0, 16
	at := box{w: 7.6 * float64(len(m.name)), h: fontSize + 1}
	x, y := p.x(m.bits)+m.shift, p.height(m.value)
	for ring := 0; ring < 24; ring++ {
		for turn := range turns {
			angle := 2 * math.Pi * float64(turn) / turns
			reach := dotRadius + 2 + step*float64(ring)
			dx, dy := math.Cos(angle), -math.Sin(angle)
			at.x = x + reach*dx + at.w*(dx-1)/2
			at.y = y + reach*dy + at.h*(dy-1)/2
			at.far = ring > 1
			if p.holds(at) && !overlapsAny(at, taken) && (at.far || nearestOf(at, taken[:len(p.marks)]) == i) {
				return at
			}
		}
	}
	return at // a test reports overlaps
}

func (p *panel) holds(b box) bool {
	return b.x > panelLeft+2 && b.x+b.w < panelRight && b.y > p.y && b.y+b.h < p.y+panelHeight-2
}

// nearestOf returns the index of the box that is nearest to b.
func nearestOf(b box, list []box) int {
	best, least := 0, math.Inf(1)
	for i, o := range list {
		dx := max(0, o.x-b.x-b.w, b.x-o.x-o.w)
		dy := max(0, o.y-b.y-b.h, b.y-o.y-o.h)
		if d := math.Hypot(dx, dy); d < least {
			best, least = i, d
		}
	}
	return best
}

// overlapsAny reports whether b overlaps a box of the list.
func overlapsAny(b box, list []box) bool {
	for _, o := range list {
		if b.overlaps(o) {
			return true
		}
	}
	return false
}
