package bench

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/vkc-go/vkc/internal/inputfile"
)

// Baseline holds results to compare with: of an earlier report, or of other programs.
type Baseline struct {
	Name   string // of the file, or of the anchors' device
	About  string // the source of the results
	Device string
	Points []Point
	Goals  []Goal
}

// Point is a result to compare a case with. One of its numbers is set.
type Point struct {
	Case   string  `json:"case"`
	By     string  `json:"by"` // the program with this result
	Micros float64 `json:"us,omitempty"`
	TFlops float64 `json:"tflops,omitempty"`
	GBps   float64 `json:"gbps,omitempty"`
	// PerSecond is the tokens a second of a language model, by the wall clock.
	PerSecond float64 `json:"per_second,omitempty"`
}

// Goal is a goal for a case, given by one of the numbers.
type Goal struct {
	Case   string  `json:"case"`
	Micros float64 `json:"us,omitempty"`     // at most
	Each   float64 `json:"each,omitempty"`   // microseconds per kernel, at most
	TFlops float64 `json:"tflops,omitempty"` // at least
	Copy   float64 `json:"copy,omitempty"`   // fraction of the device's measured copy bandwidth, at least
	Times  float64 `json:"times,omitempty"`  // multiple of the time of case Of, at most
	Of     string  `json:"of,omitempty"`
	Why    string  `json:"why"`

	SpeedOver float64 `json:"ahead,omitempty"` // multiple of the speed of point OverPoint of the case, at least
	OverPoint string  `json:"by,omitempty"`
}

// AnchorFile is the JSON file of anchors: results of other programs, and goals for cases.
type AnchorFile struct {
	Format  string  `json:"format"`
	Device  string  `json:"device"`
	Driver  string  `json:"driver"`
	Date    string  `json:"date"`
	About   string  `json:"about"`
	Anchors []Point `json:"anchors"`
	Goals   []Goal  `json:"goals"`
}

// AnchorFormat is the value of an anchor file's format field.
const AnchorFormat = "vkc.anchors.1"

//go:embed anchors/h100.json
var h100Anchors []byte

//go:embed anchors/h200.json
var h200Anchors []byte

// builtin maps the names that OpenBaseline accepts in place of a path to vkc's own anchor files.
var builtin = map[string][]byte{"h100": h100Anchors, "h200": h200Anchors}

// OpenBaseline reads a report of vkc bench --json or a file of anchors, or returns vkc's own anchors by name: "h100",
// "h200".
func OpenBaseline(path string) (*Baseline, error) {
	if text, ok := builtin[path]; ok {
		return parseBaseline(path, text)
	}
	text, err := inputfile.ReadAtMost(path, maxReport)
	if err != nil {
		return nil, err
	}
	b, err := parseBaseline(path, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// parseBaseline decodes a report of vkc bench --json or a file of anchors, which the field "format" tells apart. name
// is the file's name, and is the baseline's name.
func parseBaseline(name string, text []byte) (*Baseline, error) {
	if len(text) > maxReport {
		return nil, errors.New("too long for figures to compare with")
	}
	var file AnchorFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("neither a report of vkc bench --json nor anchors: %w", err)
	}
	switch file.Format {
	case ReportFormat:
		return baselineOf(name, text)
	case AnchorFormat:
	default:
		return nil, fmt.Errorf("format %q: want %q, as vkc bench --json writes, or %q", file.Format,
			ReportFormat, AnchorFormat)
	}
	b := &Baseline{Name: name, About: file.About, Device: file.Device, Points: file.Anchors, Goals: file.Goals}
	for _, p := range b.Points {
		if p.Case == "" || !onePositive(p.Micros, p.TFlops, p.GBps, p.PerSecond) {
			return nil, fmt.Errorf("anchor of %q by %q: want one time or rate above 0", p.Case, p.By)
		}
	}
	for _, g := range b.Goals {
		if err := b.checkGoal(g); err != nil {
			return nil, fmt.Errorf("goal of %q: %w", g.Case, err)
		}
	}
	return b, nil
}

// checkGoal returns an error unless a goal has exactly one number. A multiple of another case's time (Times) needs the
// name of that case (Of), and a multiple of a program's speed (SpeedOver) the name of the program (OverPoint).
func (b *Baseline) checkGoal(g Goal) error {
	hasNumber := onePositive(g.Micros, g.Each, g.TFlops, g.Copy, g.Times, g.SpeedOver)
	namesCase := (g.Of != "") == (g.Times != 0)
	namesProgram := (g.OverPoint != "") == (g.SpeedOver != 0)
	if g.Case == "" || !hasNumber || !namesCase || !namesProgram {
		return errors.New("want one number above 0, a case next to a multiple of its time, and a program next to a " +
			"multiple of its speed")
	}
	if g.SpeedOver > 0 && b.point(g.Case, g.OverPoint) == nil {
		return fmt.Errorf("there is no anchor by %q to compare with: add one", g.OverPoint)
	}
	return nil
}

// point returns the figure of a case by a program, or nil.
func (b *Baseline) point(name, by string) *Point {
	for i := range b.Points {
		if p := &b.Points[i]; p.Case == name && p.By == by {
			return p
		}
	}
	return nil
}

// onePositive reports whether one of the numbers is positive and finite, and all others are 0.
func onePositive(list ...float64) bool {
	set := 0
	for _, x := range list {
		if x != 0 {
			set++
		}
		// JSON has no NaN.
		if x < 0 || math.IsInf(x, 0) {
			return false
		}
	}
	return set == 1
}

// baselineOf returns the times in a report of vkc bench as a baseline. text is the report's JSON, name its file.
func baselineOf(name string, text []byte) (*Baseline, error) {
	r, err := parseReport(text)
	if err != nil {
		return nil, err
	}
	b := &Baseline{Name: name, Device: r.Device,
		About: fmt.Sprintf("vkc %s on %s, %s", r.Version, r.Device, r.Date.Format(time.DateOnly))}
	for _, res := range r.Results {
		if res.Status == OK && res.Micros > 0 {
			b.Points = append(b.Points, Point{Case: res.Name, By: "vkc " + r.Date.Format(time.DateOnly),
				Micros: res.Micros})
		}
	}
	return b, nil
}

// micros returns the point as a time in microseconds: its time, or the result's work divided by its rate. It returns 0
// if the result does not count the kind of work that the rate needs, such as flops for TFlops.
func (p Point) micros(r *Result) float64 {
	switch {
	case p.Micros > 0:
		return p.Micros
	case p.TFlops > 0:
		return r.Flops / p.TFlops / 1e6
	case p.GBps > 0:
		return r.Moved / p.GBps / 1e3
	case p.PerSecond > 0 && r.Text != nil:
		return r.Micros * r.Text.Mean / p.PerSecond
	}
	return 0
}

// String returns the point's figure with its unit.
func (p Point) String() string {
	switch {
	case p.Micros > 0:
		return digits(p.Micros) + " us"
	case p.TFlops > 0:
		return digits(p.TFlops) + " TFLOP/s"
	case p.PerSecond > 0:
		return digits(p.PerSecond) + " tokens a second"
	}
	return digits(p.GBps) + " GB/s"
}

// Comparison is a result together with a point of the same case.
type Comparison struct {
	Result *Result
	Point  Point
	// Ratio is the result's speed relative to the point's: above 1 is faster.
	Ratio float64
}

// Compare pairs the results with the points of their cases, in the order of the report.
func (b *Baseline) Compare(r *Report) []Comparison {
	var list []Comparison
	for i := range r.Results {
		res := &r.Results[i]
		if res.Status != OK || res.Micros <= 0 {
			continue
		}
		for _, p := range b.Points {
			if p.Case != res.Name {
				continue
			}
			if us := p.micros(res); us > 0 {
				list = append(list, Comparison{res, p, us / res.Micros})
			}
		}
	}
	return list
}

// Regressed returns an error if some results are slower than their baseline by more than the given percentage. The
// error names them.
func Regressed(list []Comparison, percent float64) error {
	var bad []string
	for _, c := range list {
		if c.Ratio > 0 && 100*(1/c.Ratio-1) > percent {
			bad = append(bad, fmt.Sprintf("%s takes %s us, %.1f%% more than %s (%s)", c.Result.Name,
				digits(c.Result.Micros), 100*(1/c.Ratio-1), c.Point, c.Point.By))
		}
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("%d of %d comparisons are slower by more than %v%%: %s", len(bad), len(list), percent,
		strings.Join(bad, "; "))
}

// Verdict says whether a result reaches a goal.
type Verdict struct {
	Goal    Goal
	Want    string // the goal with its unit
	Have    string // the measured figure; empty if there is none
	Reached bool
}

// Judge compares a report with the goals of its cases.
func (b *Baseline) Judge(r *Report) []Verdict {
	var list []Verdict
	for _, g := range b.Goals {
		list = append(list, b.judge(g, r))
	}
	return list
}

// judge compares the result of a goal's case with the goal. Without a result the goal is not reached.
func (b *Baseline) judge(g Goal, r *Report) Verdict {
	v := Verdict{Goal: g}
	res := r.Find(g.Case)
	measured := res != nil && res.Status == OK
	if !measured {
		res = &Result{} // so that its fields can be read
	}
	// Most goals are upper limits of a time. The last two cases are lower limits of a rate.
	have, most, unit := res.Micros, g.Micros, "us"
	switch {
	case g.Each > 0:
		have, most, unit = res.Each, g.Each, "us a kernel"
	case g.Times > 0:
		of := r.Find(g.Of)
		measured = measured && of != nil && of.Status == OK
		if measured {
			most = g.Times * of.Micros
		}
	case g.SpeedOver > 0:
		if measured {
			most = b.point(g.Case, g.OverPoint).micros(res) / g.SpeedOver
		}
	case g.Copy > 0:
		least := g.Copy * r.Ceilings.CopyGBps
		return v.fill(measured && least > 0, res.GBps, least, res.GBps >= least, ">=", "GB/s")
	case g.TFlops > 0:
		return v.fill(measured, res.TFlops, g.TFlops, res.TFlops >= g.TFlops, ">=", "TFLOP/s")
	}
	return v.fill(measured, have, most, have <= most, "<=", unit)
}

// fill sets the texts of a verdict and whether the goal is reached. have is the measured value and want the goal. sign,
// ">=" or "<=", is the relation of have to want that reaches the goal. If nothing was measured, Have stays empty and
// the goal is not reached.
func (v Verdict) fill(measured bool, have, want float64, reached bool, sign, unit string) Verdict {
	v.Want = fmt.Sprintf("%s %s %s", sign, digits(want), unit)
	if measured {
		v.Have, v.Reached = digits(have)+" "+unit, reached
	}
	return v
}
