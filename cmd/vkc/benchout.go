package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/vkc-go/vkc/bench"
	"github.com/vkc-go/vkc/internal/atomicfile"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/runtime"
)

// readReports reads the results of several runs on one device and merges them into one report. Of equal cases the
// last file's result counts.
func readReports(paths []string) (all *bench.Report, err error) {
	for _, path := range paths {
		r, err := bench.ReadReport(path)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = r
			continue
		}
		if err := all.Merge(r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return all, nil
}

// finishBench prints and stores a report. It returns an error if a case failed, or regressed by more than
// --max-regress against base.
func (a *app) finishBench(r *bench.Report, base *bench.Baseline, f *benchFlags) error {
	if f.output != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := atomicfile.WriteFile(f.output, append(text, '\n'), 0o666); err != nil {
			return err
		}
	}
	for _, drawing := range []struct {
		file  string
		write func(io.Writer) error
	}{
		{f.plot, func(w io.Writer) error { return bench.WriteSVG(w, r) }},
		{f.chart, func(w io.Writer) error { return bench.WriteBars(w, r, base) }},
	} {
		if drawing.file == "" {
			continue
		}
		var svg bytes.Buffer
		if err := drawing.write(&svg); err != nil {
			return err
		}
		if err := atomicfile.WriteFile(drawing.file, svg.Bytes(), 0o666); err != nil {
			return err
		}
	}
	if f.page != "" {
		if err := writePage(f.page, r, base); err != nil {
			return err
		}
	}
	if f.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else if err := a.printBench(r, base); err != nil {
		return err
	}
	if f.maxRegress > 0 {
		return errors.Join(r.Err(), bench.Regressed(base.Compare(r), f.maxRegress))
	}
	return r.Err()
}

// printBench prints the report, and the comparison with a baseline if there is one.
func (a *app) printBench(r *bench.Report, base *bench.Baseline) error {
	if err := r.WriteTable(a.stdout); err != nil || base == nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	return base.WriteTable(a.stdout, r)
}

// writePage replaces the benchmark's tables in the Markdown document at path.
func writePage(path string, r *bench.Report, base *bench.Baseline) error {
	old, err := inputfile.Read(path)
	if err != nil {
		return fmt.Errorf("--page: %w", err)
	}
	var page strings.Builder
	if err := bench.WritePage(&page, r, base); err != nil {
		return err
	}
	text, err := bench.ReplacePage(string(old), page.String())
	if err != nil {
		return fmt.Errorf("--page %s: %w", path, err)
	}
	return atomicfile.WriteFile(path, []byte(text), 0o666)
}

// traceTop is how many kernels of a case are printed, the slowest first.
const traceTop = 12

// printTraces prints the kernels of each case and writes all cases to a trace.
func (a *app) printTraces(path string, traces []runtime.Trace) error {
	for _, t := range traces {
		fmt.Fprintf(a.stdout, "\n%s\n", t.Name)
		if err := t.Profile.WriteTable(a.stdout, traceTop); err != nil {
			return err
		}
	}
	return writeTraceFile(path, traces...)
}

// writeTraceFile writes traces to one file.
func writeTraceFile(path string, traces ...runtime.Trace) error {
	var text bytes.Buffer
	if err := runtime.WriteTrace(&text, traces...); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, text.Bytes(), 0o666)
}
