package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/bench/tune"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/internal/tunefile"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
	"github.com/vkc-go/vkc/runtime/vk"
)

type tuneFlags struct {
	suites, symbols       []string
	filter, device, scale string
	output, against       string
	estimate              bool
	graph                 graphFlags
	budget                time.Duration
	list, reset, json     bool
	rated                 bool
}

// tuneCommand declares the command vkc tune and its flags.
func (a *app) tuneCommand() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use:   "tune [GRAPH]",
		Short: "Measure which schedules are fastest on a device, and use them from now on",
		Long: `Measure which schedules are fastest on a device, and use them from now on.

vkc tune first measures, once, how fast the device copies, multiplies and launches kernels. Then it takes every distinct
kernel of a graph, or of the cases of vkc bench, and runs it alone on random data, with its default schedule and with
others that the device can run. If the results of a schedule differ from those of the default, or of the host if it can
compute them, the schedule is out. The others are timed in turn after 250 ms of warm-up, and clearly slower ones drop
out early. A schedule replaces the default if it is more than 2 % faster (10 % on a processor). Kernels that a program
runs in a persistent kernel keep their default schedules.

A file for this device and driver keeps all measurements. The next vkc tune continues from there, so Ctrl-C loses a few
schedules at most. vkc compile, run and bench read the file unless --no-tuning is given; compile --tuning FILE takes a
file from another machine. A damaged file, or one of another device or version, is ignored. --output never overwrites a
file of another kind. It overwrites a file of another device or version only with --reset.

--estimate runs nothing. It estimates the time of a schedule from the driver's statistics of the compiled kernel (vkc
dump --stats) and the typical speed of the device's class. This is for devices that are not here, with drivers that only
compile. Results are not checked, and the times are marked as estimates: they only order schedules. --against FILE
prints how well this order agrees with measured times.`,
		Example: `  vkc tune GRAPH.json --symbol T=1
  vkc tune --suite matvec --filter q4_K --budget 2m
  vkc tune GRAPH.json --list
  vkc tune GRAPH.json --output h100.json
  vkc tune GRAPH.json --estimate --output estimated.json --against h100.json`,
		Args: atLeastArgs(0, "GRAPH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return err
			}
			return a.tune(cmd.Context(), args, &f)
		},
	}
	f.add(cmd)
	return cmd
}

// add declares the flags of vkc tune.
func (f *tuneFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&f.suites, "suite", nil, "tune the kernels of these suites of vkc bench (may be repeated); "+
		"without GRAPH, all suites: "+strings.Join(bench.Suites(), ", "))
	flags.StringVar(&f.filter, "filter", "", "only cases, or kernels of GRAPH, that match `RE`")
	flags.StringVarP(&f.device, "device", "d", "vulkan",
		"vulkan (the best device), an index of vkc devices, or part of a name")
	flags.StringVar(&f.scale, "scale", "auto", "sizes of the suites: full, tiny, or auto: tiny on a processor")
	flags.StringArrayVar(&f.symbols, "symbol", nil,
		"`NAME=N`: measure with this value of a symbol, not with its bound; may be repeated")
	f.graph.add(cmd)
	flags.DurationVar(&f.budget, "budget", time.Minute, "time limit; 0 means none")
	flags.StringVarP(&f.output, "output", "o", "", "keep the measurements in `FILE` instead of the device's own file, "+
		"and continue from those in it")
	flags.BoolVar(&f.estimate, "estimate", false, "estimate times from the driver's statistics, and run nothing; goes "+
		"with --output")
	flags.StringVar(&f.against, "against", "", "with --estimate: print the rank correlation with the times in `FILE` "+
		"of vkc tune --output")
	flags.BoolVar(&f.rated, "rated", false, "measure only the tiles among which estimated times choose the defaults")
	flags.BoolVar(&f.list, "list", false, "list the kernels and their measurements, and measure nothing")
	flags.BoolVar(&f.reset, "reset", false, "delete all earlier measurements first")
	flags.BoolVar(&f.json, "json", false, "print JSON")
}

// check returns an error for flags that are wrong on every device.
func (f *tuneFlags) check(args []string) error {
	if f.budget < 0 {
		return usagef("--budget %v: want a time, or 0", f.budget)
	}
	if f.estimate && f.output == "" {
		return usagef("--estimate goes with --output FILE: estimates never replace measurements")
	}
	if f.against != "" && !f.estimate {
		return usagef("--against goes with --estimate")
	}
	if len(args) > 0 && len(f.suites) > 0 {
		return usagef("--suite goes without GRAPH")
	}
	if len(args) == 0 && len(f.symbols) > 0 {
		return usagef("--symbol goes with GRAPH")
	}
	if len(args) == 0 && (f.graph.precision != "" || f.graph.model.onlyFor("no file") != nil) {
		return usagef("--precision and the flags of models go with GRAPH: the cases of the suites have their own")
	}
	if _, err := regexp.Compile(f.filter); err != nil {
		return usagef("--filter %q: %w", f.filter, err)
	}
	if len(args) > 0 {
		return nil
	}
	// The suites are those of vkc bench.
	return (&benchFlags{suites: f.suites, filter: f.filter, scale: f.scale}).check()
}

// tune runs vkc tune: it measures or estimates the schedules of kernels and prints the winners.
func (a *app) tune(ctx context.Context, args []string, f *tuneFlags) (err error) {
	symbols, err := parseSymbols(f.symbols)
	if err != nil {
		return err
	}
	if err := writable("output", f.output); err != nil {
		return err
	}
	dev, err := openOne(f.device, "tune")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if dev.IsCPU() && dev.Fallback() == nil {
		return usagef("--device %s: vkc tune measures Vulkan devices, and this is not one; vkc devices lists "+
			"them", f.device)
	}
	newLab := tune.NewLab
	if f.estimate {
		newLab = tune.NewEstimator
	}
	lab, caps, err := newLab(ctx, dev)
	if err != nil {
		return err
	}
	a.note("device %s", dev.Why())
	path, file, err := a.tuneFile(dev.Caps(), f)
	if err != nil {
		return err
	}
	if !f.list && !f.estimate {
		if file.Machine == (device.Machine{}) && len(args) > 0 { // check this first, measuring the device takes seconds
			if _, err := a.tuneKernels(ctx, args, symbols, caps, f); err != nil {
				return err
			}
		}
		if err := measureMachine(ctx, dev, file); err != nil {
			return err
		}
	}
	caps = file.On(caps)
	kernels, err := a.tuneKernels(ctx, args, symbols, caps, f)
	if err != nil {
		return err
	}
	opt := tune.Options{Caps: caps, Budget: f.budget, Rated: f.rated}
	if f.list {
		opt.Budget = -1 // no time to measure
	}
	rows, stopped := a.measureKernels(ctx, lab, kernels, file, path, opt)
	return errors.Join(stopped, a.printTuning(rows, file, path, f), a.printAgreement(file, f))
}

// measureMachine measures how fast a device is, unless the file says so already.
func measureMachine(ctx context.Context, dev *vkc.Device, file *tunefile.File) error {
	if file.Machine != (device.Machine{}) {
		return nil
	}
	ceilings, err := bench.MeasureCeilings(ctx, vk.Of(dev), bench.Options{})
	file.Machine = ceilings.Machine
	return err
}

// measureKernels measures schedules of kernels, shows the progress, and writes each step to the file at path.
func (a *app) measureKernels(ctx context.Context, lab tune.Lab, kernels []*tune.Kernel, file *tunefile.File,
	path string, opt tune.Options) ([]tune.Row, error) {
	bar := a.progress("tuning")
	defer bar.end()
	opt.Save = func(t *tunefile.File) error { return t.Write(path) }
	opt.Progress = func(p tune.Progress) {
		bar.describe(progressText(p))
		bar.report(int64(p.Tried), int64(p.Schedules))
	}
	return tune.Tune(ctx, lab, kernels, file, opt)
}

// tuneBefore measures the schedules of the graphs' kernels for at most the given time, so that the graphs can be
// compiled with the fastest. symbols has the values of their symbols in the run. The device's own file keeps the
// results for later runs.
func (a *app) tuneBefore(ctx context.Context, dev *vkc.Device, graphs []*ir.Graph, symbols map[string]int64,
	budget time.Duration) error {
	if dev.IsCPU() {
		a.say("--tune: the CPU has no schedules to measure")
		return nil
	}
	if n := len(dev.Parts()); n > 1 {
		return usagef("--tune goes with one device, and --device names %d", n)
	}
	lab, caps, err := tune.NewLab(ctx, dev)
	if err != nil {
		return err
	}
	path, file, err := a.tuneFile(dev.Caps(), &tuneFlags{})
	if err != nil {
		return err
	}
	if err := measureMachine(ctx, dev, file); err != nil {
		return err
	}
	caps = file.On(caps)
	var lists [][]*tune.Kernel
	for _, g := range graphs {
		list, err := tune.Kernels(ctx, g, caps, symbols)
		if err != nil {
			return err
		}
		lists = append(lists, list)
	}
	rows, err := a.measureKernels(ctx, lab, tune.Merge(lists...), file, path,
		tune.Options{Caps: caps, Budget: budget})
	faster, left := 0, 0 // rows has the kernels up to an error
	for _, r := range rows {
		if r.Changed {
			faster++
		}
		left += r.Variants - r.Tried
	}
	a.note("tuning: %d of %s faster than by default, %s not measured yet; kept in %s", faster,
		plural(len(rows), "kernel"), plural(left, "schedule"), path)
	return err
}

// printAgreement prints, with --against, how similarly estimates and measurements rank the schedules of each kernel.
func (a *app) printAgreement(file *tunefile.File, f *tuneFlags) error {
	if f.against == "" || f.json {
		return nil
	}
	measured, err := tunefile.Read(f.against)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KERNEL\tSCHEDULES\tRANK CORRELATION")
	var all []float64
	for _, k := range tune.Compare(file, measured) {
		if k.Schedules < 3 || math.IsNaN(k.Correlation) { // too few times to rank
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%.2f\n", k.About, k.Schedules, k.Correlation)
		all = append(all, k.Correlation)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(a.stdout, "no kernel has three schedules with times in %s too\n", f.against)
		return err
	}
	slices.Sort(all)
	_, err = fmt.Fprintf(a.stdout, "%d kernels, median %.2f, from %.2f to %.2f\n", len(all), all[len(all)/2], all[0],
		all[len(all)-1])
	return err
}

// micros formats microseconds with four digits, or as an integer if that has more. It never uses an exponent.
func micros(us float64) string {
	digits := 0
	for scale := us; scale < 1000 && digits < 3; scale *= 10 {
		digits++
	}
	return strconv.FormatFloat(us, 'f', digits, 64)
}

// progressText describes the progress of tuning.
func progressText(p tune.Progress) string {
	text := fmt.Sprintf("%d of %d kernels done, %s", p.Done, p.Kernels, p.About)
	if p.Default > 0 {
		text += fmt.Sprintf(": %s us, best %s", micros(p.Default), micros(p.Best))
	}
	return text
}

// tuneKernels returns the kernels of the graph in args, or else of the chosen cases of vkc bench.
func (a *app) tuneKernels(ctx context.Context, args []string, symbols map[string]int64, caps device.Caps,
	f *tuneFlags) ([]*tune.Kernel, error) {
	if len(args) > 0 {
		g, err := f.graph.read(args[0])
		if err != nil {
			return nil, err
		}
		if err := checkSymbols(runtime.SignatureOf(g), symbols, 1); err != nil {
			return nil, err
		}
		list, err := tune.Kernels(ctx, g, caps, symbols)
		if err != nil {
			return nil, err
		}
		re := regexp.MustCompile(f.filter)
		chosen := slices.DeleteFunc(slices.Clone(list), func(k *tune.Kernel) bool {
			return !re.MatchString(k.About) && !re.MatchString(k.Name)
		})
		if len(chosen) == 0 {
			return nil, usagef("--filter %q matches no kernel; their names are like %q", f.filter, list[0].About)
		}
		return chosen, nil
	}
	cases, err := (&benchFlags{suites: f.suites, filter: f.filter, scale: f.scale}).cases(bench.ScaleFor(caps))
	if err != nil {
		return nil, err
	}
	var lists [][]*tune.Kernel
	for _, c := range cases {
		g, err := c.Graph(c.Sizes)
		if err != nil {
			return nil, err
		}
		list, err := tune.Kernels(ctx, g, caps, nil)
		if unsupported := (*vkc.UnsupportedError)(nil); errors.As(err, &unsupported) {
			a.note("case %s: %s", c.Name, oneLine(err))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.Name, err)
		}
		lists = append(lists, list)
	}
	return tune.Merge(lists...), nil
}

// tuneFile opens the tuning file of the device, to continue from its measurements, and returns its path. It returns a
// new file if there is none yet, or none that fits the device and this version of vkc. It returns an error if the file
// at --output must not be overwritten.
func (a *app) tuneFile(caps device.Caps, f *tuneFlags) (path string, file *tunefile.File, err error) {
	read := tunefile.Read
	path = f.output
	if path == "" {
		path, read = tunefile.Path(caps), tunefile.ReadCached
	}
	if path == "" {
		return "", nil, errors.New("caches are off, so vkc tune cannot keep measurements: pass --output FILE")
	}
	if f.output != "" {
		if own, err := tunefile.Written(path); err != nil || !own {
			return "", nil, errors.Join(err, fmt.Errorf("--output %s: the file exists and is not of vkc tune: name "+
				"another", path))
		}
	}
	if f.reset {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", nil, err
		}
	}
	file, err = read(path)
	if err == nil {
		err = file.Fits(caps)
	}
	if err != nil { // begin a new file, unless that would overwrite another device's file at --output
		if foreign := (*tunefile.ForeignError)(nil); f.output != "" && errors.As(err, &foreign) {
			return "", nil, fmt.Errorf("--output %s: %w: name another file, or pass --reset to overwrite it",
				path, err)
		}
		if !tunefile.Absent(err) {
			a.note("vkc tune ignores the earlier measurements: %s", oneLine(err))
		}
		file = tunefile.New(caps)
		file.Estimated = f.estimate
	}
	if file.Estimated != f.estimate {
		how := "measured"
		if file.Estimated {
			how = "estimated"
		}
		return "", nil, usagef("%s holds what was %s: name another --output, or pass --reset", path, how)
	}
	return path, file, nil
}

// tuneInfo is the output of vkc tune --json.
type tuneInfo struct {
	Device  string    `json:"device"`
	Driver  string    `json:"driver"`
	File    string    `json:"file"`
	Kernels []tuneRow `json:"kernels"`
	// Machine and Tuning have the format of a profile.
	Machine device.Machine `json:"machine"`
	Tuning  device.Tuning  `json:"tuning"`
}

type tuneRow struct {
	Kernel   string  `json:"kernel"`
	Uses     int     `json:"uses"`
	Default  float64 `json:"default_us,omitempty"`
	Best     float64 `json:"best_us,omitempty"`
	Schedule string  `json:"schedule,omitempty"`
	Changed  bool    `json:"changed"`
	Tried    int     `json:"tried"`
	Variants int     `json:"variants"`
	Wrong    int     `json:"wrong,omitempty"`
	Failed   int     `json:"failed,omitempty"`
	Why      string  `json:"why,omitempty"`
}

// printTuning prints a line for each kernel, and the total times of the default and of the fastest schedules.
func (a *app) printTuning(rows []tune.Row, file *tunefile.File, path string, f *tuneFlags) error {
	if f.json {
		return a.printJSON(tuneInfoOf(rows, file, path))
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KERNEL\tUSES\tDEFAULT us\tBEST us\tGAIN\tTRIED\tSCHEDULE")
	var before, after float64
	measured := 0
	for _, r := range rows {
		if r.Best == 0 {
			fmt.Fprintf(w, "%s\t%d\t-\t-\t-\t%d of %d\t%s\n", r.About, r.Uses, r.Tried, r.Variants, r.Why)
			continue
		}
		measured++
		before += float64(float64(r.Uses) * r.Default)
		after += float64(float64(r.Uses) * r.Best)
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.2fx\t%d of %d\t%s\n", r.About, r.Uses, micros(r.Default),
			micros(r.Best), r.Default/r.Best, r.Tried, r.Variants, tuneSchedule(r))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	text := fmt.Sprintf("%d of %s measured", measured, plural(len(rows), "kernel"))
	if measured > 0 {
		text += fmt.Sprintf(", each for itself: %s us, tuned %s us (%.2fx); kept in %s", micros(before),
			micros(after), before/after, path)
	}
	if slices.ContainsFunc(rows, func(r tune.Row) bool { return r.Best == 0 && r.Tried == 0 && r.Why == "" }) {
		text += "\nthere was no time for the others: run the same command again to continue, or give it a longer " +
			"--budget"
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// tuneInfoOf converts the results of vkc tune to the form that --json prints.
func tuneInfoOf(rows []tune.Row, file *tunefile.File, path string) tuneInfo {
	info := tuneInfo{Device: file.Device, Driver: file.Driver, File: path, Machine: file.Machine, Tuning: file.Tuning()}
	for _, r := range rows {
		row := tuneRow{Kernel: r.About, Uses: r.Uses, Default: r.Default, Best: r.Best, Changed: r.Changed,
			Tried: r.Tried, Variants: r.Variants, Wrong: r.Wrong, Failed: r.Failed, Why: r.Why}
		if r.Best > 0 {
			row.Schedule = r.Schedule.String()
		}
		info.Kernels = append(info.Kernels, row)
	}
	return info
}

// tuneSchedule returns the text of a kernel's chosen schedule, with the numbers of schedules that were wrong or failed.
func tuneSchedule(r tune.Row) string {
	text := "the default"
	if r.Changed {
		text = r.Schedule.String()
	}
	if r.Wrong > 0 {
		text += fmt.Sprintf("; %d with wrong results", r.Wrong)
	}
	if r.Failed > 0 {
		text += fmt.Sprintf("; %d failed", r.Failed)
	}
	if r.Why != "" {
		text += "; " + r.Why
	}
	return text
}
