package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/ir"
)

// onnxReport is the output of vkc verify --onnx --json.
type onnxReport struct {
	Device   string       `json:"device"`
	Cases    int          `json:"cases"`
	Passed   int          `json:"passed"`
	Excepted int          `json:"excepted"` // did not pass and are listed in --except
	Failed   int          `json:"failed"`
	Results  []onnxResult `json:"results"` // of the cases that did not pass
}

// onnxResult is a case that did not pass.
type onnxResult struct {
	Case     string `json:"case"`
	Stage    string `json:"stage"` // build, compile, run or compare
	Err      string `json:"error"`
	Excepted string `json:"excepted,omitempty"` // the reason of the list
}

// verifyONNX runs every test model in a folder and compares its outputs with the expected ones, which are next to it.
// It prints the failures and a summary.
func (a *app) verifyONNX(ctx context.Context, f *verifyFlags) (err error) {
	if f.ops || f.quick || f.cases {
		return usagef("--ops, --quick and --cases do not go with --onnx")
	}
	cases, err := f.onnxCases()
	if err != nil {
		return err
	}
	excepted, err := readExceptions(f.except)
	if err != nil {
		return err
	}
	dev, err := openOne(f.device, "verify")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	a.note("device %s", dev.Why())
	report := onnxReport{Device: dev.Name(), Cases: len(cases), Results: []onnxResult{}}
	bar := a.progress("verifying")
	for i, c := range cases {
		bar.report(int64(i), int64(len(cases)))
		stage, err := runONNX(ctx, dev, c, f.rtol, f.atol)
		if ctx.Err() != nil {
			bar.end()
			return ctx.Err()
		}
		if res := report.add(c.Name, stage, err, excepted); res != nil && res.Excepted == "" && !f.json {
			bar.end()
			if err := a.printONNX(res); err != nil {
				return err
			}
		}
		// Without a progress bar, note every tenth of a long run.
		tenth, done := (len(cases)+9)/10, i+1
		if !bar.shown && done%tenth == 0 && done < len(cases) && done >= notedCases {
			a.note("%d of %d cases: %d failed", done, len(cases), report.Failed)
		}
	}
	bar.end()
	if f.json {
		err = a.printJSON(report)
	} else {
		_, err = fmt.Fprintf(a.stdout, "%d cases: %d passed, %d excepted, %d failed\n", report.Cases, report.Passed,
			report.Excepted, report.Failed)
	}
	if err == nil && report.Failed > 0 {
		err = fmt.Errorf("%d of %d cases failed", report.Failed, report.Cases)
	}
	return err
}

// onnxCases returns the cases of --onnx that --filter chooses: at least one.
func (f *verifyFlags) onnxCases() ([]onnx.Case, error) {
	all, err := onnx.Cases(f.onnx)
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(f.filter) // without a filter it matches every name
	if err != nil {
		return nil, usagef("--filter %q: %w", f.filter, err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("--onnx %s: it contains no case: want folders with model.onnx and test_data_set_0",
			f.onnx)
	}
	cases := slices.DeleteFunc(slices.Clone(all), func(c onnx.Case) bool { return !re.MatchString(c.Name) })
	if len(cases) == 0 {
		return nil, usagef("--filter %q matches no case; names are like %s", f.filter, all[0].Name)
	}
	return cases, nil
}

// notedCases is the number of cases from which on the count is printed, at every tenth, if there is no progress bar.
const notedCases = 20

// add counts the result of a case. err is nil if it passed, and stage is where it failed. excepted has the reasons of
// cases that may fail. If such a case passes, add counts a failure, because the list is wrong. It returns the result to
// print, or nil if there is none.
func (r *onnxReport) add(name, stage string, err error, excepted map[string]string) *onnxResult {
	reason, listed := excepted[name]
	if err == nil && listed {
		stage, err, reason = "list", errors.New("it passes, but is in the list of exceptions: remove it there"), ""
	}
	switch {
	case err == nil:
		r.Passed++
		return nil
	case reason != "":
		r.Excepted++
	default:
		r.Failed++
	}
	r.Results = append(r.Results, onnxResult{Case: name, Stage: stage, Err: err.Error(), Excepted: reason})
	return &r.Results[len(r.Results)-1]
}

// readExceptions reads lists of the cases that may fail, and returns their reasons by name. Each line has a name and a
// reason; comments begin with #.
func readExceptions(paths []string) (map[string]string, error) {
	list := map[string]string{}
	for _, path := range paths {
		content, err := inputfile.Read(path)
		if err != nil {
			return nil, err
		}
		for n, line := range strings.Split(string(content), "\n") {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			name, reason, _ := strings.Cut(line, " ")
			reason = strings.TrimSpace(reason)
			if reason == "" || list[name] != "" {
				return nil, fmt.Errorf("%s:%d: want the name of a case and a reason, and each name only "+
					"once", path, n+1)
			}
			list[name] = reason
		}
	}
	return list, nil
}

// runONNX runs one test model and compares its outputs, with the relative and absolute tolerances rtol and atol. It
// returns the stage that failed and its error, or "" and nil.
func runONNX(ctx context.Context, dev *vkc.Device, c onnx.Case, rtol, atol float64) (stage string, err error) {
	l, err := c.Load()
	if err != nil {
		return "build", err
	}
	defer func() { err = errors.Join(err, l.File.Close()) }()
	p, err := dev.Compile(ctx, l.File.Graph, vkc.CompileOptions{Weights: l.File})
	if err != nil {
		return "compile", err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	exe, err := dev.Load(ctx, p, vkc.LoadOptions{Weights: l.File})
	if err != nil {
		return "compile", err
	}
	defer func() { err = errors.Join(err, exe.Close()) }()
	out, err := exe.Run(ctx, l.Inputs, vkc.RunOptions{})
	if err != nil {
		return "run", err
	}
	if err := l.File.Graph.OutputInfo().Trim(out.Outputs); err != nil {
		return "compare", err
	}
	for _, name := range slices.Sorted(maps.Keys(l.Want)) {
		if err := onnx.Compare(out.Outputs[name], l.Want[name], rtol, atol); err != nil {
			return "compare", fmt.Errorf("output %q: %w", name, err)
		}
	}
	return "", nil
}

// printONNX prints how a case failed, at once.
func (a *app) printONNX(r *onnxResult) error {
	fmt.Fprintf(a.stdout, "%s: %s: %s\n", ir.Printable(r.Case), r.Stage, oneLine(errors.New(r.Err)))
	return a.stdout.Flush()
}
