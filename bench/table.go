package bench

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/vkc-go/vkc/codegen/device"
)

// maxScheduleShown bounds the column of schedules, in bytes.
const maxScheduleShown = 96

// The headings of Row's columns. For language models they are llama-bench's, plus the speed of the device alone.
const (
	TableHead = "case\tus\tTFLOP/s\tGB/s\tceiling\tkernels\tcheck\tschedule"
	TextHead  = "model\tsize\tparams\tbackend\ttest\tt/s\tdevice t/s\tcheck"
)

// Head returns the names of the columns that Row fills.
func (r *Result) Head() string {
	if r.Text != nil {
		return TextHead
	}
	return TableHead
}

// Row returns a result as a line of tab-separated columns, for people.
func (r *Result) Row() string {
	if r.Text != nil {
		return r.textRow()
	}
	if r.Status != OK {
		return fmt.Sprintf("%s\t-\t-\t-\t-\t%s\t%s: %s", r.Name, count(r.Kernels), r.Status,
			shorten(r.Why, 2*maxScheduleShown))
	}
	share := cmp.Or(r.Bound, "-")
	if r.Share > 0 {
		share = fmt.Sprintf("%.1f%% %s", 100*r.Share, r.Bound)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\tok\t%s", r.Name, digits(r.Micros), digits(r.TFlops), digits(r.GBps),
		share, count(r.Kernels), r.schedule())
}

// textRow returns the row of a language model, with the columns of llama-bench.
func (r *Result) textRow() string {
	t, check, mean, device := r.Text, string(r.Status), "-", "-"
	if r.Status == OK {
		mean = fmt.Sprintf("%.2f ± %.2f", t.Mean, t.StdDev)
		if t.Device > 0 {
			device = fmt.Sprintf("%.2f", t.Device)
		}
	} else {
		check += ": " + shorten(r.Why, 2*maxScheduleShown)
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", t.Model, large(t.Size, 1<<20, "MiB", 1<<30, "GiB"),
		large(t.Params, 1e6, "M", 1e9, "B"), t.Backend, t.Test, mean, device, check)
}

// large prints a number in the larger one of two units that it reaches.
func large(n, unit int64, name string, larger int64, itsName string) string {
	if n >= larger {
		unit, name = larger, itsName
	}
	return fmt.Sprintf("%.2f %s", float64(n)/float64(unit), name)
}

// schedule returns the last column of a row: the first schedule and the number of others or, for a chain of kernels,
// the time of each.
func (r *Result) schedule() string {
	switch {
	case r.Submit > 0:
		return fmt.Sprintf("%.2f us a kernel, submitted in %s us", r.Each, digits(r.Submit))
	case r.Each > 0:
		return fmt.Sprintf("%.2f us a kernel", r.Each)
	}
	if len(r.Schedules) == 0 {
		return ""
	}
	text := shorten(r.Schedules[0], maxScheduleShown)
	if n := len(r.Schedules) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// count prints a number of kernels, or "-" for none.
func count(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// digits prints four significant digits of a number above 0.
func digits(x float64) string {
	switch {
	case x <= 0:
		return "-"
	case x >= 1000:
		return fmt.Sprintf("%.0f", x)
	case x >= 100:
		return fmt.Sprintf("%.1f", x)
	case x >= 1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.3f", x)
}

// shorten cuts s to at most `most` bytes, and adds an ellipsis if it cut.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// WriteTable prints the report for people, suite by suite.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	suite, head := "", ""
	for i := range r.Results {
		if res := &r.Results[i]; res.Suite != suite || res.Head() != head {
			suite, head = res.Suite, res.Head()
			fmt.Fprintf(t, "%s\n", head)
		}
		fmt.Fprintln(t, r.Results[i].Row())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, r.Summary())
	return err
}

// compiledFor names the target, if it is not the device itself.
func (r *Report) compiledFor() string {
	if r.Target == "" {
		return ""
	}
	return " compiled for " + r.Target
}

// Summary returns two lines: the outcomes, and the ceilings if they were measured.
func (r *Report) Summary() string {
	n := r.Count()
	c := r.Ceilings
	text := fmt.Sprintf("%d cases%s: %d ok, %d refused, %d wrong, %d failed", len(r.Results), r.compiledFor(),
		n[OK], n[Refused], n[Wrong], n[Failed])
	if c.Machine == (device.Machine{}) {
		return text
	}
	text += fmt.Sprintf("\nceilings measured: copy %s GB/s, f32 %s TFLOP/s, f16 matrix %s TFLOP/s",
		digits(c.CopyGBps), digits(c.VectorF32), digits(c.MatrixF16))
	if c.MatrixI8 > 0 {
		text += fmt.Sprintf(", i8 matrix %s TOP/s", digits(c.MatrixI8))
	}
	if c.Note != "" {
		text += " (" + c.Note + ")"
	}
	return text
}

// Err returns an error that names the wrong and failed cases, or nil. Refused cases are no errors.
func (r *Report) Err() error {
	var bad []string
	for _, res := range r.Results {
		if res.Status == Wrong || res.Status == Failed {
			bad = append(bad, fmt.Sprintf("%s (%s: %s)", res.Name, res.Status, res.Why))
		}
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("%d of %d cases are not right: %s", len(bad), len(r.Results), strings.Join(bad, "; "))
}

// WriteTable prints a comparison of a report with the baseline: both values of each case, and the speedup of the
// report.
func (b *Baseline) WriteTable(w io.Writer, r *Report) error {
	list := b.Compare(r)
	fmt.Fprintf(w, "against %s: %s\n", b.Name, b.About)
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no case of this run is in it")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "case\tus\tspeed\tof\tby")
	for _, c := range list {
		fmt.Fprintf(t, "%s\t%s\t%.2fx\t%s\t%s\n", c.Result.Name, digits(c.Result.Micros), c.Ratio, c.Point, c.Point.By)
	}
	return t.Flush()
}
