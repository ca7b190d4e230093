package bench

import (
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
)

// The geometry of a chart of bars, in pixels.
const (
	barsWidth = 720
	barsStart = 130.0 // left end of the bars, right of their names
	barsEnd   = 620.0 // right end of the longest bar, left of its number
	barsRow   = 22
)

// barsStyle suits light and dark pages: it follows the reader's color scheme.
const barsStyle = `<style>text{font:13px sans-serif;fill:#1f2328}.head{font-size:15px;font-weight:bold}.note{fill:#59636e;font-size:12px}` +
	`.ours{fill:#0072b2}.theirs{fill:#9a9a9a}` +
	`@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.note{fill:#9198a1}.ours{fill:#56b4e9}.theirs{fill:#6e7681}}</style>`

// WriteBars draws the tokens a second of a report's language models as bars, next to the figures of other programs for
// the same cases. Bars of different cases have different scales: in each case the fastest program has the longest bar.
func WriteBars(w io.Writer, r *Report, base *Baseline) error {
	var b strings.Builder
	y := 52
	for i := range r.Results {
		res := &r.Results[i]
		if res.Status != OK || res.Text == nil || !drawable(res.Text.Mean) {
			continue
		}
		bars := []Point{{By: "vkc", PerSecond: res.Text.Mean}}
		longest := res.Text.Mean
		for _, p := range base.points(res.Name) {
			if drawable(p.PerSecond) {
				bars, longest = append(bars, p), max(longest, p.PerSecond)
			}
		}
		y += barsRow
		fmt.Fprintf(&b, "<text x=\"10\" y=\"%d\">%s</text>\n", y,
			html.EscapeString(res.Text.Model+": "+describeTest(res.Text.Test)))
		for n, p := range bars {
			y += barsRow
			class := "theirs"
			if n == 0 {
				class = "ours"
			}
			wide := (barsEnd - barsStart) * p.PerSecond / longest
			fmt.Fprintf(&b, `<text class="note" x="%.0f" y="%d" text-anchor="end">%s</text>`+
				`<rect class="%s" x="%.0f" y="%d" width="%.1f" height="16" rx="2"/><text x="%.1f" y="%d">%s</text>`+"\n",
				barsStart-8, y, html.EscapeString(p.By), class, barsStart, y-13, wide, barsStart+wide+6, y,
				thousands(p.PerSecond))
		}
		y += barsRow / 2
	}
	if b.Len() == 0 {
		return errors.New("no result has tokens a second: measure a language model with -m")
	}
	about := fmt.Sprintf("%s, %s. Longer is faster; each test has a scale of its own.", r.Device,
		r.Date.Format("2006-01-02"))
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+
		"\n%s\n<text class=\"head\" x=\"10\" y=\"24\">Tokens a second</text>\n"+
		"<text class=\"note\" x=\"10\" y=\"44\">%s</text>\n%s</svg>\n",
		barsWidth, y+10, barsWidth, y+10, barsStyle, html.EscapeString(about), b.String())
	return err
}

// points returns b's results of the case with that name. b may be nil.
func (b *Baseline) points(name string) (list []Point) {
	if b == nil {
		return nil
	}
	for _, p := range b.Points {
		if p.Case == name {
			list = append(list, p)
		}
	}
	return list
}

// testName matches llama-bench's names of tests, such as "pp512" and "tg128 @ d4096".
var testName = regexp.MustCompile(`^(pp|tg)(\d+)(?: @ d(\d+))?$`)

// describeTest spells out the name of a test, such as tg128 @ d4096.
func describeTest(name string) string {
	m := testName.FindStringSubmatch(name)
	if m == nil {
		return name
	}
	text := map[string]string{"pp": "a prompt of ", "tg": "generating "}[m[1]] + m[2] + " tokens"
	if m[3] != "" {
		text += " after " + m[3]
	}
	return text
}

// thousands prints a whole number with commas.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
