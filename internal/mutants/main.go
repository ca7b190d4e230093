package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// listFile is the list of faults, from the root of the module.
const listFile = "internal/mutants/faults.txt"

// wanted is the fraction of faults that tests must detect.
const wanted = 0.95

// main runs the tool.
func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run plants the selected faults one at a time, and reports the ones that no test finds.
func run(ctx context.Context) error {
	only := flag.String("only", "", "plant the faults whose name or file this regular expression matches")
	timeout := flag.Duration("timeout", 10*time.Minute, "for the tests of a package; a fault that hangs is seen")
	flag.Parse()
	filter, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(listFile)
	if err != nil {
		return fmt.Errorf("%w: run it from the root of the repository", err)
	}
	all, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", listFile, err)
	}
	list := slices.DeleteFunc(all, func(f fault) bool { return !filter.MatchString(f.name + " " + f.file) })
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := testRunner{dir: dir, timeout: *timeout, clean: map[string]error{}}
	seen, wrong := 0, []error(nil)
	fmt.Printf("%-8s %8s  %-44s %s\n", "", "seconds", "fault", "first test that saw it")
	for _, f := range list {
		start := time.Now()
		outcome, by, err := l.try(ctx, f)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			wrong, by = append(wrong, err), strings.SplitN(err.Error(), "\n", 2)[0]
		}
		if outcome == caught {
			seen++
		}
		fmt.Printf("%-8s %8.0f  %-44s %s\n", outcome, time.Since(start).Seconds(), f.name, by)
	}
	fmt.Printf("%d of %d faults were caught\n", seen, len(list))
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	if float64(seen) < wanted*float64(len(list)) {
		return fmt.Errorf("fewer than %.0f%% were caught: write the tests that catch the others", 100*wanted)
	}
	return nil
}

// The outcomes of a fault.
const (
	caught = "caught"
	missed = "MISSED"
	failed = "ERROR" // the fault itself is wrong
)

// testRunner runs tests, with a fault or without.
type testRunner struct {
	dir     string
	timeout time.Duration
	clean   map[string]error // results of tests without a fault, by their command line
}

// try runs the tests that should detect a fault, first without it, where they must pass, and then with it. outcome is
// caught, missed or failed, and by is the first test that failed. The Go tool's overlay replaces the file, so that the
// source stays as it is.
func (l *testRunner) try(ctx context.Context, f fault) (outcome, by string, err error) {
	text, err := os.ReadFile(f.file)
	if err != nil {
		return failed, "", err
	}
	planted, err := f.plant(string(text))
	if err != nil {
		return failed, "", err
	}
	key := fmt.Sprint(f.packages, f.run)
	if _, known := l.clean[key]; !known { // faults share tests: run them once without a fault
		out, err := l.test(ctx, f)
		if err != nil {
			err = fmt.Errorf("fault %q: its tests fail without it, or there are none: %w\n%s", f.name, err, out)
		}
		l.clean[key] = err
	}
	if err := l.clean[key]; err != nil {
		return failed, "", err
	}
	at, err := filepath.Abs(f.file)
	if err != nil {
		return failed, "", err
	}
	file, overlay := filepath.Join(l.dir, filepath.Base(f.file)), filepath.Join(l.dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{at: file}})
	if err != nil {
		return failed, "", err
	}
	err = errors.Join(os.WriteFile(file, []byte(planted), 0o600), os.WriteFile(overlay, replace, 0o600))
	if err != nil {
		return failed, "", err
	}
	out, err := l.test(ctx, f, "-overlay="+overlay)
	switch {
	case err == nil:
		return missed, "", nil
	case errors.Is(err, errBuild):
		return failed, "", fmt.Errorf("fault %q does not compile:\n%s", f.name, out)
	}
	return caught, firstFailure(out), nil
}

// What is wrong with a test run, other than that tests fail.
var (
	errBuild  = errors.New("it does not compile")
	errNoTest = errors.New("no test matches")
)

// test runs the tests of a fault on lavapipe, as scripts/test does, and returns their output. flags are additional
// flags of go test. It returns errBuild if the tests do not compile and errNoTest if there are none.
func (l *testRunner) test(ctx context.Context, f fault, flags ...string) (out string, err error) {
	root, err := os.Getwd()
	if err != nil {
		return "", err
	}
	args := append([]string{"go", "test", "-count=1", "-failfast", "-vet=off", "-trimpath",
		fmt.Sprintf("-exec='%[1]s/scripts/unoptimized' '%[1]s/scripts/with-vulkan'", root),
		"-timeout=" + l.timeout.String()}, flags...)
	if f.run != "" {
		args = append(args, "-run="+f.run)
	}
	cmd := exec.CommandContext(ctx, "scripts/with-vulkan", append(args, f.packages...)...)
	cmd.Env = append(os.Environ(), "VKC_REQUIRE_DEVICE=1", "VKC_LAVAPIPE=1", "GALLIVM_PERF=nopt")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that go test ends its children too
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	err = cmd.Run()
	out = both.String()
	switch {
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
		err = errBuild
	case err == nil && strings.Contains(out, "[no tests to run]"):
		err = errNoTest
	}
	return out, err
}

// firstFailure returns the name of the first failed test in the output of go test, or the line of a panic.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			return strings.Fields(name)[0]
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
	}
	return "(no test is named)"
}
