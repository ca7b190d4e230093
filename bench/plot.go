package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/internal/chart"
)

// WriteSVG draws a report as SVG. It has a roofline (Williams et al. 2009) with a circle for every case that counts
// arithmetic, at its operations per byte and its rate, below the measured ceilings. Below it is a bar for every other
// case, at its share of the copy bandwidth. Names and values appear when the pointer is over a mark.
func WriteSVG(w io.Writer, r *Report) error {
	p := &plot{report: r, ceilings: r.Ceilings}
	for _, c := range []*float64{&p.ceilings.CopyGBps, &p.ceilings.VectorF32, &p.ceilings.MatrixF16,
		&p.ceilings.MatrixI8} {
		if !drawable(*c) {
			*c = 0
		}
	}
	for i := range r.Results {
		switch res := &r.Results[i]; {
		case res.Status != OK || res.Micros <= 0 || res.Moved <= 0:
		case res.Flops > 0:
			if !drawable(intensity(res)) || !drawable(res.TFlops) {
				continue
			}
			p.points = append(p.points, res)
		// The others are chains of tiny kernels. They have a time for each kernel, and no share of a ceiling.
		case res.Each == 0:
			p.bars = append(p.bars, res)
		}
	}
	p.layout()
	p.roofline()
	p.shares()
	return p.finish(w)
}

// The geometry of the drawing, in pixels.
const (
	plotWidth  = 960
	plotLeft   = 70
	plotRight  = 940
	plotTop    = 60
	plotBottom = 480
	barHeight  = 16
	barLeft    = 330
	barScale   = 540.0 // pixels for the whole of the copy bandwidth
	barsTop    = plotBottom + 90
)

// colors has the color of the circles and bars of each suite.
var colors = map[string]string{
	"matmul": chart.Colors[0], "matvec": chart.Colors[1], "memory": chart.Colors[2], "ops": chart.Colors[3],
	"attention": chart.Colors[4], "model": chart.Colors[5],
}

// plot is the drawing of one report. Methods write SVG elements into body.
type plot struct {
	report   *Report
	ceilings Ceilings  // the ceilings that can be drawn
	points   []*Result // with flops
	bars     []*Result // memory-bound cases, without flops
	body     strings.Builder

	// Ranges of the roofline in powers of ten: flops per byte, and TFLOP/s.
	x0, x1, y0, y1 int
}

// drawable reports whether a number fits on a logarithmic axis; a file may have any number.
func drawable(x float64) bool { return x > 1e-12 && x < 1e12 }

func (p *plot) printf(format string, args ...any) { fmt.Fprintf(&p.body, format+"\n", args...) }

func intensity(r *Result) float64 { return r.Flops / r.Moved }

// layout sets the ranges of both axes, in powers of ten, so that all points fit, and the corners where the flat roofs
// meet the memory roof.
func (p *plot) layout() {
	xs, ys := []float64{1, 100}, []float64{0.1, 1}
	for _, r := range p.points {
		xs, ys = append(xs, intensity(r)), append(ys, r.TFlops)
	}
	c := p.ceilings
	for _, roof := range []float64{c.VectorF32, c.MatrixF16, c.MatrixI8} {
		if roof > 0 {
			ys = append(ys, roof)
		}
		if roof > 0 && c.CopyGBps > 0 {
			// Twice the operations per byte of the corner, so that some of the flat roof is visible.
			xs = append(xs, 2*roof*1e3/c.CopyGBps)
		}
	}
	p.x0, p.x1 = powers(xs)
	p.y0, p.y1 = powers(ys)
}

// powers returns the powers of ten around a list of numbers above 0.
func powers(list []float64) (lo, hi int) {
	lo = int(math.Floor(math.Log10(slices.Min(list))))
	hi = int(math.Ceil(math.Log10(slices.Max(list))))
	return lo, max(hi, lo+1)
}

// x returns the pixel column of v flops per byte.
func (p *plot) x(v float64) float64 {
	return plotLeft + (math.Log10(v)-float64(p.x0))/float64(p.x1-p.x0)*(plotRight-plotLeft)
}

// y returns the pixel row of v TFLOP/s.
func (p *plot) y(v float64) float64 {
	return plotBottom - (math.Log10(v)-float64(p.y0))/float64(p.y1-p.y0)*(plotBottom-plotTop)
}

// roofline draws the axes, the ceilings as roofs, and a circle per case with flops.
func (p *plot) roofline() {
	p.axes()
	c := p.ceilings
	if c.CopyGBps > 0 {
		p.memoryRoof(c.CopyGBps / 1e3)
	}
	p.flatRoof("f32 multiply-adds", c.VectorF32)
	p.flatRoof("f16 cooperative matrices", c.MatrixF16)
	p.flatRoof("i8 cooperative matrices", c.MatrixI8)
	for _, r := range p.points {
		p.printf(`<circle cx="%.1f" cy="%.1f" r="5" fill="%s" fill-opacity="0.75" stroke="#fff"><title>%s: %s us, %s TFLOP/s, %s GB/s</title></circle>`,
			p.x(intensity(r)), p.y(r.TFlops), colors[r.Suite], html.EscapeString(r.Name), digits(r.Micros),
			digits(r.TFlops), digits(r.GBps))
	}
	p.legend()
}

// axes draws the grid of decades with its labels.
func (p *plot) axes() {
	for e := p.x0; e <= p.x1; e++ {
		x := p.x(math.Pow10(e))
		p.printf(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x, plotTop, x, plotBottom, x, plotBottom+18, decade(e))
	}
	for e := p.y0; e <= p.y1; e++ {
		y := p.y(math.Pow10(e))
		p.printf(`<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, plotLeft, y, plotRight, y, plotLeft-8, y+4, decade(e))
	}
	p.printf(`<text x="%d" y="%d" text-anchor="middle">operations per byte moved</text>`,
		(plotLeft+plotRight)/2, plotBottom+38)
	p.printf(`<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">TFLOP/s</text>`,
		(plotTop+plotBottom)/2)
}

func decade(e int) string {
	if e >= 0 {
		return fmt.Sprint(int64(math.Pow10(e)))
	}
	return fmt.Sprintf("%.*f", -e, math.Pow10(e))
}

// memoryRoof draws the roof of the memory bandwidth, with slope in TB/s.
func (p *plot) memoryRoof(slope float64) {
	// The roof is rate = slope * intensity. Its ends are intensities, where it leaves the area of the drawing.
	from := max(math.Pow10(p.x0), math.Pow10(p.y0)/slope)
	to := min(math.Pow10(p.x1), math.Pow10(p.y1)/slope)
	if to <= from {
		return
	}
	x0, y0, x1, y1 := p.x(from), p.y(from*slope), p.x(to), p.y(to*slope)
	p.printf(`<line class="roof" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x0, y0, x1, y1)
	angle := math.Atan2(y1-y0, x1-x0) * 180 / math.Pi
	p.printf(`<text class="note" transform="translate(%.1f %.1f) rotate(%.1f)">copy %s GB/s</text>`, x0+(x1-x0)*0.08,
		y0+(y1-y0)*0.08-6, angle, digits(slope*1e3))
}

// flatRoof draws an arithmetic ceiling as a horizontal line, from its corner with the memory roof to the right edge.
func (p *plot) flatRoof(name string, tflops float64) {
	if tflops <= 0 {
		return
	}
	from := math.Pow10(p.x0)
	if slope := p.ceilings.CopyGBps / 1e3; slope > 0 {
		from = max(from, tflops/slope)
	}
	if from >= math.Pow10(p.x1) {
		return
	}
	y := p.y(tflops)
	p.printf(`<line class="roof" x1="%.1f" y1="%.1f" x2="%d" y2="%.1f"/><text class="note" x="%.1f" y="%.1f">%s %s TFLOP/s</text>`,
		p.x(from), y, plotRight, y, p.x(from)+8, y-6, name, digits(tflops))
}

// legend draws the color of each suite that has points.
func (p *plot) legend() {
	x := plotLeft + 12
	for _, suite := range Suites() {
		if slices.ContainsFunc(p.points, func(r *Result) bool { return r.Suite == suite }) {
			p.printf(`<circle cx="%d" cy="%d" r="5" fill="%s"/><text x="%d" y="%d">%s</text>`, x, plotTop-10,
				colors[suite], x+9, plotTop-6, suite)
			x += 30 + 8*len(suite)
		}
	}
}

// shares draws a bar for each memory-bound case: its share of the copy bandwidth. Without a measured bandwidth it
// draws none.
func (p *plot) shares() {
	copyGBps := p.ceilings.CopyGBps
	if len(p.bars) == 0 || copyGBps <= 0 {
		p.bars = nil
		return
	}
	p.printf(`<text x="%d" y="%d" class="head">Memory-bound work: part of the copy bandwidth of %s GB/s</text>`,
		plotLeft, barsTop-22, digits(copyGBps))
	bottom := barsTop + len(p.bars)*barHeight
	for _, percent := range []int{0, 25, 50, 75, 100} {
		x := barLeft + barScale*float64(percent)/100
		p.printf(`<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%d %%</text>`, x, barsTop, x, bottom, x, bottom+16, percent)
	}
	for i, r := range p.bars {
		y := barsTop + i*barHeight
		share := r.GBps / copyGBps
		p.printf(`<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"><title>%s us, %s GB/s</title></rect><text class="note" x="%.1f" y="%d">%.0f %%</text>`,
			barLeft-6, y+12, html.EscapeString(r.Name), barLeft, y+2, barScale*min(share, 1.08), barHeight-4,
			colors[r.Suite], digits(r.Micros), digits(r.GBps),
			barLeft+barScale*min(share, 1.08)+4, y+12, 100*share)
	}
}

// finish writes the SVG document: size, style, heading and body.
func (p *plot) finish(w io.Writer) error {
	height := plotBottom + 60
	if len(p.bars) > 0 {
		height = barsTop + len(p.bars)*barHeight + 40
	}
	r := p.report
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d">
<style>%s</style>
<rect class="back" width="%d" height="%d"/>
<text x="%d" y="26" class="head">%s</text>
%s</svg>
`, plotWidth, height, plotWidth, height, chart.Style, plotWidth, height, plotLeft,
		html.EscapeString(fmt.Sprintf("%s, driver %s, %s", r.Device, r.Driver, r.Date.Format("2006-01-02"))),
		p.body.String())
	return err
}
