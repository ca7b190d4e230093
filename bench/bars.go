package bench

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
)

// The geometry of a chart of bars, in pixels. It is as narrow as a phone.
const (
	barsWidth = 328
	barsStart = 104.0 // left end of the bars, right of their names
	barsEnd   = 268.0 // right end of the longest bar, left of its number
	barsRow   = 22
)

// barsStyle suits light and dark pages: it follows the reader's color scheme.
const barsStyle = `<style>text{font:12px sans-serif;fill:#1f2328}.head{font-size:15px;font-weight:bold}.note{fill:#59636e}` +
	`.ours{fill:#0072b2}.theirs{fill:#9a9a9a}` +
	`@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.note{fill:#9198a1}.ours{fill:#56b4e9}.theirs{fill:#6e7681}}</style>`

// bar is a number of one program in a case.
type bar struct {
	by    string
	value float64
	class string
}

// WriteBars writes an SVG drawing of results as bars, next to the figures of other programs for the same cases. For
// language models the bars are tokens a second. For other cases they are times; a case without times in base is left
// out. Each case has its own scale: its largest number has the longest bar.
func WriteBars(w io.Writer, r *Report, base *Baseline) error {
	var b strings.Builder
	y, heads, notes := 66, []string{}, []string{} // y is the baseline of the last text, below the heading
	say := func(head, note string) {
		if !slices.Contains(heads, head) {
			heads, notes = append(heads, head), append(notes, note)
		}
	}
	for i := range r.Results {
		res := &r.Results[i]
		name, bars := res.bars(base)
		if len(bars) == 0 {
			continue
		}
		if res.Text != nil {
			say("Tokens a second", "Longer is faster")
		} else {
			say("Microseconds", "Shorter is faster")
		}
		longest := slices.MaxFunc(bars, func(a, b bar) int { return cmp.Compare(a.value, b.value) }).value
		y += barsRow
		fmt.Fprintf(&b, "<text x=\"4\" y=\"%d\">%s</text>\n", y, html.EscapeString(name))
		for _, p := range bars {
			y += barsRow
			width := (barsEnd - barsStart) * p.value / longest
			fmt.Fprintf(&b, `<text class="note" x="%.0f" y="%d" text-anchor="end">%s</text>`+
				`<rect class="%s" x="%.0f" y="%d" width="%.1f" height="16" rx="2"/><text x="%.1f" y="%d">%s</text>`+"\n",
				barsStart-8, y, html.EscapeString(p.by), p.class, barsStart, y-13, width, barsStart+width+6, y,
				thousands(p.value))
		}
		y += barsRow / 2
	}
	if b.Len() == 0 {
		return errors.New("no result has tokens a second, or a time that --against has, too: " +
			"measure a language model with -m")
	}
	about := fmt.Sprintf("%s, %s", r.Device, r.Date.Format("2006-01-02"))
	_, err := fmt.Fprintf(w,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n%s\n"+
			"<text class=\"head\" x=\"4\" y=\"22\">%s</text>\n"+
			"<text class=\"note\" x=\"4\" y=\"42\">%s</text>\n"+
			"<text class=\"note\" x=\"4\" y=\"58\">%s. Scales differ.</text>\n%s</svg>\n",
		barsWidth, y+10, barsWidth, y+10, barsStyle, strings.Join(heads, "; "), html.EscapeString(about),
		strings.Join(notes, "; "), b.String())
	return err
}

// bars returns the name of a case and its bars, vkc's first and then those of other programs. It returns no bars if the
// case failed or, unless it is a language model, if no other program has a time.
func (r *Result) bars(base *Baseline) (name string, list []bar) {
	name, ours := r.Name, r.Micros
	if r.Text != nil {
		name, ours = r.Text.Model+": "+describeTest(r.Text.Test), r.Text.Mean
	}
	if r.Status != OK || !drawable(ours) {
		return "", nil
	}
	list = []bar{{"vkc", ours, "ours"}}
	for _, p := range base.points(r.Name) {
		theirs := p.Micros
		if r.Text != nil {
			theirs = p.PerSecond
		}
		if drawable(theirs) {
			list = append(list, bar{p.By, theirs, "theirs"})
		}
	}
	if r.Text == nil && len(list) == 1 {
		return "", nil
	}
	return name, list
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
	kind, tokens, depth := m[1], m[2], m[3] // depth is "" for a test without earlier text
	text := map[string]string{"pp": "a prompt of ", "tg": "generating "}[kind] + tokens + " tokens"
	if depth != "" {
		text += " after " + depth
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
