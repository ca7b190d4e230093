package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/check"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// number is a float for JSON. Infinities and NaN are encoded as strings.
type number float64

// MarshalJSON writes infinities and NaN as strings, because JSON has no such numbers.
func (n number) MarshalJSON() ([]byte, error) {
	s := ir.FormatFloat(float64(n))
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		s = strconv.Quote(s)
	}
	return []byte(s), nil
}

// outputInfo describes a tensor in a few numbers.
type outputInfo struct {
	Name  string   `json:"name"`
	DType ir.DType `json:"dtype"`
	Shape []int    `json:"shape"`
	First []number `json:"first"`         // elements, in row-major order
	Min   *number  `json:"min,omitempty"` // of the elements that are not NaN; absent if there are none
	Max   *number  `json:"max,omitempty"`
	NaNs  int      `json:"nans,omitempty"`
	File  string   `json:"file,omitempty"` // the file that the whole tensor was written to
}

// checkInfo compares an output or state with the reference.
type checkInfo struct {
	Name     string `json:"name"`
	State    bool   `json:"state,omitempty"`
	OK       bool   `json:"ok"`
	WorstAbs number `json:"worst_abs"`
	WorstRel number `json:"worst_rel"`
	Allowed  number `json:"allowed"` // error, at the element nearest to its tolerance or furthest past it
	Bad      int    `json:"bad,omitempty"`
	Elems    int    `json:"elements"`
	Problem  string `json:"problem,omitempty"`
}

// runInfo is the output of vkc run --json.
type runInfo struct {
	Device  string           `json:"device"`
	Why     string           `json:"why"`
	Program *programInfo     `json:"program,omitempty"` // absent for the CPU fast path and for bundles
	Millis  float64          `json:"run_ms"`
	Outputs []outputInfo     `json:"outputs"`
	Measure *measureInfo     `json:"measured,omitempty"`
	Check   []checkInfo      `json:"check,omitempty"`
	Profile *runtime.Profile `json:"profile,omitempty"`
	Labels  []labelInfo      `json:"labels,omitempty"` // of a classifier, the likeliest first
}

// firstShown is how many elements of an output are printed.
const firstShown = 8

// print reports on a run.
func (s *session) print(res *runtime.Result, report *check.Report, measured *measureInfo,
	elapsed time.Duration) error {
	info := runInfo{Device: s.exe.Device(), Why: s.exe.Why(), Millis: millis(elapsed), Profile: res.Profile,
		Check: checkInfos(report), Measure: measured}
	if s.program != nil && s.program.Stats.Elapsed > 0 { // several devices have no statistics
		p := infoOf(s.program.Stats)
		info.Program = &p
	}
	for _, o := range s.exe.Outputs() {
		out, err := describe(o.Name, res.Outputs[o.Name])
		if err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
		out.File = s.outputs[o.Name]
		info.Outputs = append(info.Outputs, out)
	}
	if s.folder != nil {
		for _, o := range s.exe.Outputs() {
			if info.Labels == nil {
				info.Labels = labelsOf(res.Outputs[o.Name], s.folder)
			}
		}
	}
	if s.flags.json {
		return s.printJSON(info)
	}
	return s.printRun(&info)
}

// printRun prints the outputs, the check, the profile and the measured times.
func (s *session) printRun(info *runInfo) error {
	w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	for _, o := range info.Outputs {
		fmt.Fprintf(w, "%s\t%s%v\t%s\t%s\n", ir.Printable(o.Name), o.DType, o.Shape, o.span(), o.first())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, l := range info.Labels {
		fmt.Fprintf(s.stdout, "%.4f  %s\n", l.Probability, ir.Printable(l.Label))
	}
	for _, c := range info.Check {
		fmt.Fprintln(s.stdout, c.line())
	}
	if info.Profile != nil {
		if err := info.Profile.WriteTable(s.stdout, s.flags.top); err != nil {
			return err
		}
	}
	if info.Measure != nil {
		fmt.Fprintln(s.stdout, info.Measure.line())
	}
	s.note("ran in %.3f ms on %s", info.Millis, info.Device)
	return nil
}

// measureInfo has the durations of warm runs.
type measureInfo struct {
	Device *spanInfo `json:"device,omitempty"` // measured by the device's clock; absent for the CPU fast path
	Wall   spanInfo  `json:"wall"`             // the whole run, including the transfer of inputs and outputs
}

// spanInfo is times of runs in us.
type spanInfo struct {
	Median float64 `json:"us"`
	Min    float64 `json:"min_us"`
	Max    float64 `json:"max_us"`
	Runs   int     `json:"runs"`
}

func spanOf(t bench.Timing) spanInfo {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	return spanInfo{us(t.Median), us(t.Min), us(t.Max), t.Replays}
}

func (s spanInfo) String() string {
	return fmt.Sprintf("%.1f us (%.1f to %.1f, %d runs)", s.Median, s.Min, s.Max, s.Runs)
}

// line describes the measured times.
func (m *measureInfo) line() string {
	text := fmt.Sprintf("measured: %s by the wall clock", m.Wall)
	if m.Device != nil {
		text = fmt.Sprintf("measured: %s by the device's clock, %s by the wall clock", m.Device, m.Wall)
	}
	return text
}

// describe summarizes a tensor: its first elements, range and NaNs.
func describe(name string, d *ir.Data) (outputInfo, error) {
	out := outputInfo{Name: name, DType: d.DType, Shape: d.Dims}
	if out.Shape == nil {
		out.Shape = []int{} // JSON has [] for a scalar, not null
	}
	values, err := d.Floats()
	if err != nil {
		return out, err
	}
	out.First = make([]number, min(firstShown, len(values)))
	for i := range out.First {
		out.First[i] = number(values[i])
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if math.IsNaN(v) {
			out.NaNs++
			continue
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	if out.NaNs < len(values) { // else there is no range
		out.Min, out.Max = (*number)(&lo), (*number)(&hi)
	}
	return out, nil
}

// span returns the range of the values as text, and the number of NaNs if there are any.
func (o *outputInfo) span() string {
	text := "no elements"
	if o.Min != nil {
		text = fmt.Sprintf("%s to %s", short(*o.Min), short(*o.Max))
	}
	if o.NaNs > 0 {
		text = fmt.Sprintf("%d NaN", o.NaNs)
		if o.Min != nil {
			text += fmt.Sprintf(", the others %s to %s", short(*o.Min), short(*o.Max))
		}
	}
	return text
}

// first returns the first values as text.
func (o *outputInfo) first() string {
	parts := make([]string, len(o.First))
	for i, v := range o.First {
		parts[i] = short(v)
	}
	n := 1
	for _, d := range o.Shape {
		n *= d
	}
	if n > len(parts) {
		parts = append(parts, "…")
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// short prints six digits of a number.
func short(n number) string { return strconv.FormatFloat(float64(n), 'g', 6, 64) }

// checkInfos converts the report of a check for JSON. It returns nil if there was no check.
func checkInfos(report *check.Report) []checkInfo {
	if report == nil {
		return nil
	}
	list := []checkInfo{}
	for _, v := range report.Values {
		list = append(list, checkInfo{
			Name: v.Name, State: v.State, OK: v.OK, WorstAbs: number(v.WorstAbs), WorstRel: number(v.WorstRel),
			Allowed: number(v.Allowed), Bad: v.Bad, Elems: v.Elems, Problem: v.Mismatch,
		})
	}
	return list
}

// line returns the result of one check as text.
func (c *checkInfo) line() string {
	name := ir.Printable(c.Name)
	head, verdict := "check "+name, "within the tolerance"
	if c.State {
		head = "check state " + name
	}
	switch {
	case c.Problem != "":
		return head + ": " + c.Problem
	case !c.OK:
		verdict = fmt.Sprintf("PAST THE TOLERANCE in %d of %d elements", c.Bad, c.Elems)
	case c.WorstAbs == 0:
		return head + ": equal with the reference"
	}
	return fmt.Sprintf("%s: worst error %s, relative %s; %s (%s at its worst element)", head, short(c.WorstAbs),
		short(c.WorstRel), verdict, short(c.Allowed))
}
