package bench

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
)

// The lines of docs/PERFORMANCE.md between which WritePage's output belongs.
const (
	PageBegin = "<!-- what follows is made by: make bench -->"
	PageEnd   = "<!-- end of what make bench makes -->"
)

// WritePage writes a report as the Markdown tables of docs/PERFORMANCE.md, one for each suite. A row has a case's
// rates, its share of the device's ceilings, results of other programs, and goals. The last two are from b, which may
// be nil.
func WritePage(w io.Writer, r *Report, b *Baseline) error {
	if b == nil {
		b = &Baseline{}
	}
	p := &page{report: r, points: map[string][]string{}, goals: map[string][]Verdict{}}
	for _, c := range b.Compare(r) {
		p.points[c.Result.Name] = append(p.points[c.Result.Name],
			fmt.Sprintf("%s %s (%.2fx)", c.Point.By, c.Point, c.Ratio))
	}
	reached := 0
	verdicts := b.Judge(r)
	for _, v := range verdicts {
		p.goals[v.Goal.Case] = append(p.goals[v.Goal.Case], v)
		if v.Reached {
			reached++
		}
	}
	p.head(b, reached, len(verdicts))
	suite := ""
	for i := range r.Results {
		if res := &r.Results[i]; res.Suite != suite {
			suite = res.Suite
			p.printf("\n### %s\n\n| case | time, us | TFLOP/s | GB/s | of the ceiling | others (our speed to "+
				"theirs) | to reach | reached |\n|---|---|---|---|---|---|---|---|\n", suite)
		}
		p.row(&r.Results[i])
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// page is the page being written.
type page struct {
	report *Report
	points map[string][]string  // by case
	goals  map[string][]Verdict // by case
	text   strings.Builder
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.text, format, args...) }

// head writes the lines above the tables: device, versions, ceilings, and how many goals the results reach.
func (p *page) head(b *Baseline, reached, goals int) {
	r := p.report
	p.printf("%s, ", r.Device)
	if r.API != "" { // empty for the CPU fast path
		p.printf("driver %s, Vulkan %s, ", r.Driver, r.API)
	}
	p.printf("%s, vkc %s%s.\n", r.Date.Format(time.DateOnly), r.Version, r.compiledFor())
	if r.Ceilings.Machine != (device.Machine{}) {
		p.ceilings(r.Ceilings)
	}
	if goals > 0 {
		p.printf("Of %d figures to reach, %d are reached.\n", goals, reached)
	}
	if b.About != "" {
		p.printf("\nOthers, on %s: %s\n", b.Device, b.About)
	}
}

// ceilings writes the measured ceilings, except the ones that the device lacks.
func (p *page) ceilings(c Ceilings) {
	p.printf("Ceilings measured in the same run: copy %s GB/s", digits(c.CopyGBps))
	if c.VectorF32 > 0 {
		p.printf(", f32 multiply-adds %s TFLOP/s", digits(c.VectorF32))
	}
	if c.MatrixF16 > 0 {
		p.printf(", f16 cooperative matrices %s TFLOP/s", digits(c.MatrixF16))
	}
	if c.MatrixI8 > 0 {
		p.printf(", i8 cooperative matrices %s TOP/s", digits(c.MatrixI8))
	}
	p.printf(".\n")
}

// row writes the table row of one result, with other programs' results and the goals of its case.
func (p *page) row(r *Result) {
	var want, have []string
	for _, v := range p.goals[r.Name] {
		want = append(want, fmt.Sprintf("%s (%s)", v.Want, v.Goal.Why))
		switch {
		case v.Have == "":
			have = append(have, "not measured")
		case v.Reached:
			have = append(have, "yes")
		default:
			have = append(have, "**no**")
		}
	}
	others, goals, verdict := strings.Join(p.points[r.Name], "; "), strings.Join(want, "; "), strings.Join(have, "; ")
	if r.Status != OK {
		p.printf("| %s | %s: %s | | | | %s | %s | %s |\n", r.Name, r.Status,
			strings.ReplaceAll(shorten(r.Why, 160), "|", "\\|"), others, goals, verdict)
		return
	}
	share := ""
	if r.Share > 0 {
		share = fmt.Sprintf("%.0f %% %s", 100*r.Share, r.Bound)
	}
	time := digits(r.Micros)
	if r.Submit > 0 {
		time += fmt.Sprintf(" (%.2f each, submitted in %s)", r.Each, digits(r.Submit))
	}
	p.printf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Name, time, digits(r.TFlops), digits(r.GBps), share,
		others, goals, verdict)
}

// ReplacePage replaces the page between its two marker lines in a document.
func ReplacePage(document, page string) (string, error) {
	before, rest, ok := strings.Cut(document, PageBegin+"\n")
	_, after, ok2 := strings.Cut(rest, PageEnd+"\n")
	if !ok || !ok2 {
		return "", fmt.Errorf("the document lacks the lines %q and %q, between which the tables go", PageBegin, PageEnd)
	}
	return before + PageBegin + "\n" + page + PageEnd + "\n" + after, nil
}
