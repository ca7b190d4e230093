package chart

import (
	"encoding/xml"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestChart: for any numbers, the chart is valid XML, lies on the page, and skips NaN and infinities.
func TestChart(t *testing.T) {
	for _, c := range []struct {
		ys     []float64
		points int
	}{
		{[]float64{3, 2.5, 2.25}, 3}, {nil, 0}, {[]float64{1}, 1}, {[]float64{5, 5, 5}, 3},
		{[]float64{1, math.NaN(), math.Inf(1), 2}, 2}, {[]float64{1e-12, 3e-12}, 2}, {[]float64{-1e12, 1e12}, 2},
	} {
		xs := make([]float64, len(c.ys))
		for i := range xs {
			xs[i] = float64(i)
		}
		var b strings.Builder
		drawing := Chart{Title: "a < b", X: "x", Y: "y", Lines: []Line{{Name: "l&m", X: xs, Y: c.ys}}}
		if err := drawing.Write(&b); err != nil {
			t.Fatal(err)
		}
		d, points := xml.NewDecoder(strings.NewReader(b.String())), 0
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%v: %v", c.ys, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
				for _, a := range e.Attr {
					if a.Name.Local == "points" {
						points = len(strings.Fields(a.Value))
					}
				}
			}
		}
		if points != c.points || strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%v: %d points, want %d:\n%s", c.ys, points, c.points, b.String())
		}
	}
	x := newAxis([][]float64{{0.3, 7.9}}, 10, 0, 100)
	if x.from != 0 || x.to != 8 || x.step != 1 || x.at(4) != 50 {
		t.Errorf("the axis is %+v", x)
	}
}

// TestNamesOfDots: names of dots lie on the page, and not over one another.
func TestNamesOfDots(t *testing.T) {
	c := Chart{Lines: []Line{{Name: "formats", X: []float64{2, 4, 4, 4, 4, 16}, Y: []float64{9, 5, 5.05, 5.1, 5.2, 0},
		Marks: []string{"q2_K", "q4_0", "q4_K", "iq4_nl", "nvfp4", "bf16"}}}}
	var b strings.Builder
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	var all boxes
	for _, m := range regexp.MustCompile(`class="note" x="(.*?)" y="(.*?)" text-anchor="(.*?)">(.*?)<`).
		FindAllStringSubmatch(b.String(), -1) {
		x, _ := strconv.ParseFloat(m[1], 64)
		y, _ := strconv.ParseFloat(m[2], 64)
		box := textBox(x, y, m[4], m[3])
		if box[0] < 0 || box[2] > width || all.overlaps(box) {
			t.Errorf("%s lies at %v, beside %v", m[4], box, all)
		}
		all = append(all, box)
	}
	if len(all) != 6 {
		t.Errorf("%d names, want 6", len(all))
	}
}
