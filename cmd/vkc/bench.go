package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/generate"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

type benchFlags struct {
	suites        []string
	filter        string
	device, scale string
	target        string
	noCache, json bool
	list          bool
	output        string
	from          []string
	against, page string
	plot, chart   string
	trace         string
	maxRegress    float64
	tuning        tuningFlags
	model         benchModelFlags
}

// benchCommand declares the command vkc bench and its flags.
func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of kernels on a device",
		Long: `Measure the speed of kernels on a device, case by case. The time of a case is the median of many replays
by the device's own clock, after 250 ms of work without a gap. Inputs are random. A case that is limited by memory uses
data that does not fit in the device's cache. vkc bench compares samples of every output with the CPU reference before
it measures.

The column "ceiling" is the speed as a fraction of the device's own limit: of its copy bandwidth or of its arithmetic
units. vkc bench measures these limits first, and raises one if a case is faster. If a case cannot be compiled for the
device, it is refused and the table has the reason. A time includes the cost of one dependent launch, because the
replays of a case wait for each other.

With -m the cases are those of a language model: reading prompts (pp) and generating (tg) after texts of given lengths.
Flags and columns are those of llama-bench. Tokens per second are by the wall clock. The next column has the tokens per
second of the device alone, by its own clock. The processor and several devices have no such clock.

With --device cpu the cases run on the CPU fast path, by the wall clock: on all cores, or on as many as the environment
variable GOMAXPROCS allows. The default sizes are then those that suit a processor.

With --against, vkc bench compares each time with an earlier --json, or with the times of other programs on an H100. The
exit code is 1 if outputs of a case are wrong, or if a case is slower than --max-regress allows.`,
		Example: `  vkc bench
  vkc bench --suite matvec --filter 'q4_K|f16'
  vkc bench --device 0 --output bench.json
  vkc bench --suite model --target generic
  vkc bench --suite model -m MODEL.gguf -p 512 -n 128 --n-depth 0,4096 --kv f16
  GOMAXPROCS=1 vkc bench --device cpu --scale full --filter '^(matmul|add)/f32/'
  vkc bench --suite memory --against bench.json --max-regress 5
  vkc bench --from bench.json --against h100 --page docs/PERFORMANCE.md`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.model.check(cmd.Flags(), f.suites); err != nil {
				return err
			}
			return a.bench(cmd.Context(), &f)
		},
	}
	f.add(cmd)
	return cmd
}

// add declares the flags of vkc bench.
func (f *benchFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.model.register(flags)
	flags.StringSliceVar(&f.suites, "suite", nil, "only these suites (may be repeated): "+
		strings.Join(bench.Suites(), ", "))
	flags.StringVar(&f.filter, "filter", "", "run only cases with names that match `RE`; a name is like "+
		"matmul/f16/4096x4096x4096")
	flags.StringVarP(&f.device, "device", "d", "vulkan",
		"vulkan (the best device), cpu, an index of vkc devices, or part of a name; with -m also a list such as 0,1, "+
			"to give each device some of the model's layers")
	flags.StringVar(&f.target, "target", "",
		"compile for a profile instead of the device: "+strings.Join(device.Profiles(), ", "))
	flags.StringVar(&f.scale, "scale", "auto", "full, tiny (every case in milliseconds on a processor), or auto: "+
		"tiny on a processor")
	flags.BoolVar(&f.list, "list", false, "list the cases and run none")
	flags.BoolVar(&f.noCache, "no-cache", false, "ignore the caches and write nothing to them")
	f.tuning.add(cmd)
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.StringVarP(&f.output, "output", "o", "", "write the JSON to `FILE` too")
	flags.StringArrayVar(&f.from, "from", nil, "measure nothing, and read the results of an earlier run from the JSON "+
		"`FILE`; may be repeated, and later files replace the results of earlier ones")
	flags.StringVar(&f.against, "against", "", "compare with `FILE`: an earlier --json, anchors, or the anchors of "+
		"vkc: h100, h200")
	flags.Float64Var(&f.maxRegress, "max-regress", 0,
		"with --against: exit code 1 if a case takes `PERCENT` longer; 0 allows all")
	flags.StringVar(&f.page, "page", "",
		"write the results as tables into the Markdown `FILE`, between its markers")
	flags.StringVar(&f.trace, "trace", "", "print the kernels of each case, and write them with the host's work to "+
		"`FILE.json` for ui.perfetto.dev")
	flags.StringVar(&f.plot, "plot", "", "draw the results under the device's roofline to `FILE.svg`")
	flags.StringVar(&f.chart, "chart", "",
		"draw bars to `FILE.svg`: tokens per second of language models, and the other times that --against has too")
}

// check reports flags that are wrong on every device, before a device is opened.
func (f *benchFlags) check() error {
	if f.maxRegress != 0 && (f.against == "" || !(f.maxRegress > 0)) {
		return usagef("--max-regress %v: want a number above 0, together with --against", f.maxRegress)
	}
	for flag, path := range map[string]string{"output": f.output, "plot": f.plot, "chart": f.chart, "trace": f.trace} {
		if err := writable(flag, path); err != nil {
			return err
		}
	}
	if f.target != "" {
		if err := oneOf("target", f.target, device.Profiles()); err != nil {
			return err
		}
	}
	if f.model.path != "" {
		_, err := f.cases(bench.Full)
		return err
	}
	// With --scale auto the device determines the names of the cases, so that --filter may match on some devices only.
	_, fullErr := f.cases(bench.Full)
	if _, tinyErr := f.cases(bench.Tiny); tinyErr == nil {
		return nil
	}
	return fullErr
}

// checkDevices reports values of --device and --split that contradict other flags.
func (f *benchFlags) checkDevices() error {
	several := strings.Contains(f.device, ",")
	if several && (f.model.path == "" || f.target != "") {
		return usagef("--device %s: only -m MODEL.gguf takes several devices, and without --target: name one", f.device)
	}
	if f.model.split == generate.SplitTensor && !several {
		return usagef("--split tensor: a single device (--device %s) always has whole layers: name several, such as "+
			"0,1", f.device)
	}
	return nil
}

// cases checks the flags and returns the cases they choose. auto is the scale for --scale auto.
func (f *benchFlags) cases(auto bench.Scale) ([]bench.Case, error) {
	for _, s := range f.suites {
		if err := oneOf("suite", s, bench.Suites()); err != nil {
			return nil, err
		}
	}
	scale, ok := map[string]bench.Scale{"auto": auto, "full": bench.Full, "tiny": bench.Tiny}[f.scale]
	if !ok {
		return nil, oneOf("scale", f.scale, []string{"full", "tiny", "auto"})
	}
	re, err := regexp.Compile(f.filter)
	if err != nil {
		return nil, usagef("--filter %q: %w", f.filter, err)
	}
	all := bench.Cases(scale, f.suites...)
	if f.model.path != "" {
		if all, err = f.model.Cases(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.model.path, err)
		}
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(c bench.Case) bool { return !re.MatchString(c.Name) })
	if len(chosen) == 0 {
		return nil, usagef("--filter %q matches no case; names are like %s (see --list)", f.filter, all[0].Name)
	}
	return chosen, nil
}

// bench runs vkc bench: it checks the flags, measures the cases on the device, or reads them with --from, and
// reports. After an interruption it reports the cases that were measured.
func (a *app) bench(ctx context.Context, f *benchFlags) (err error) {
	if err := f.model.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.model.close()) }()
	if err := f.check(); err != nil {
		return err
	}
	var base *bench.Baseline
	if f.against != "" {
		if base, err = bench.OpenBaseline(f.against); err != nil {
			return fmt.Errorf("--against: %w", err)
		}
	}
	if len(f.from) > 0 {
		report, err := readReports(f.from)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		return a.finishBench(report, base, f)
	}
	if err := f.checkDevices(); err != nil {
		return err
	}
	dev, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if dev.IsCPU() && f.target != "" {
		return usagef("--target %s: vkc compiles nothing for %s: leave out --target", f.target, dev.Name())
	}
	defer func() { err = errors.Join(err, f.model.Close()) }() // before the device
	cases, err := f.cases(bench.ScaleFor(dev.Caps()))
	if err != nil {
		return err
	}
	if f.list {
		return a.listCases(cases)
	}
	a.note("device %s", dev.Why())
	if !f.tuning.none && !dev.IsCPU() {
		a.noteTuning(dev)
	}
	var traces []runtime.Trace
	report, stopped := a.measure(ctx, dev, cases, f, &traces)
	if report == nil {
		return stopped
	}
	// What was measured before an interruption is worth having.
	err = a.finishBench(report, base, f)
	if f.trace != "" {
		err = errors.Join(err, a.printTraces(f.trace, traces))
	}
	return errors.Join(stopped, err)
}

// open opens the device of --device. If that names several, they become one device, which divides a model by layers, by
// tensors, or with --split auto in the way with the lowest estimated time of a step.
func (f *benchFlags) open(ctx context.Context) (*vkc.Device, error) {
	switch {
	case !strings.Contains(f.device, ","), f.model.split == generate.SplitLayers:
		return openForMeasuring(f.device)
	case f.model.split == generate.SplitTensor:
		return vkc.OpenTensorParallel(f.device)
	}
	g, err := f.model.Step()
	if err != nil {
		return nil, err
	}
	devices, err := vkc.OpenDevices(f.device)
	if err != nil {
		return nil, err
	}
	dev, err := devices.Cheapest(ctx, g)
	if err != nil {
		return nil, errors.Join(err, devices.Close())
	}
	return dev, nil
}

// listCases prints the suite and name of each case, for vkc bench --list.
func (a *app) listCases(cases []bench.Case) error {
	for _, c := range cases {
		if _, err := fmt.Fprintf(a.stdout, "%s\t%s\n", c.Suite, c.Name); err != nil {
			return err
		}
	}
	return nil
}

// newReport returns a report without results. For a Vulkan device it measures the ceilings, which are the best speeds
// of memory and arithmetic.
func newReport(ctx context.Context, dev *vkc.Device) (*bench.Report, error) {
	caps := dev.Caps()
	report := &bench.Report{Format: bench.ReportFormat, Device: caps.Name, Version: vkc.Version(),
		Date: time.Now().UTC().Truncate(time.Second)}
	switch {
	case dev.IsCPU():
		report.Device = fmt.Sprintf("%s, GOMAXPROCS=%d", caps.Name, goruntime.GOMAXPROCS(0))
	case vk.Of(dev) != nil:
		report.Driver = strings.TrimSpace(caps.DriverName + " " + caps.DriverInfo)
		report.API = caps.API.String()
		var err error
		if report.Ceilings, err = bench.MeasureCeilings(ctx, vk.Of(dev), bench.Options{}); err != nil {
			return nil, err
		}
	}
	return report, nil
}

// measure runs the cases. After an error or an interrupt, the report has the finished ones. With --trace it appends the
// profile of each case to traces.
func (a *app) measure(ctx context.Context, dev *vkc.Device, cases []bench.Case, f *benchFlags,
	traces *[]runtime.Trace) (*bench.Report, error) {
	report, err := newReport(ctx, dev)
	if err != nil {
		return nil, err
	}
	report.Target = f.target
	defer report.Settle()
	bar := a.progress("measuring")
	defer bar.end()
	r := bench.Runner{Device: dev, Ceilings: report.Ceilings, NoCache: f.noCache, NoTuning: f.tuning.none}
	if f.target != "" {
		caps, err := device.Profile(f.target)
		if err != nil {
			return nil, err
		}
		r.Target = &caps
	}
	if f.trace != "" {
		r.Trace = func(c bench.Case, p *runtime.Profile) {
			*traces = append(*traces, runtime.Trace{Name: c.Name, Profile: p})
		}
	}
	noted := map[string]bool{dev.Why(): true} // each other device is named once
	for i, c := range cases {
		bar.report(int64(i), int64(len(cases)))
		res, err := r.Run(ctx, c)
		if err != nil {
			return report, fmt.Errorf("case %s: %w", c.Name, err)
		}
		report.Results = append(report.Results, res)
		if t := res.Text; t != nil && t.On != "" && !noted[t.On] {
			noted[t.On] = true
			bar.end()
			a.note("%s runs on %s", t.Test, t.On)
		}
	}
	return report, nil
}
