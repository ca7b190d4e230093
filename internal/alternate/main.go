// Alternate measures vkc and ggml on one device in alternation: a round of ggml's kernels, a round of vkc's, and so on.
// A GPU that has just started to work is up to a third slower than a minute later, so times of separate runs cannot be
// compared.
//
//	go run ./internal/alternate -vkc bin/vkc -ops "test-backend-ops" -anchors anchors.json -report vkc.json
//
// -ops is ggml's own benchmark of ops (test-backend-ops, of ggml 0.27). Alternate writes the file of cases that it
// reads. For both sides the best of all rounds counts. Alternate prints a line per case, and writes ggml's times as
// anchors and vkc's as a report, for
//
//	vkc bench --from vkc.json --against anchors.json --page docs/PERFORMANCE.md
//
// The two sides are timed differently. ggml's tool repeats an op for about a second on the same tensors and divides the
// wall-clock time by the number of repeats; this includes converting the f32 operand of a matmul. vkc runs the case on
// tensors larger than the cache and takes the median of the device's timestamps.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vkc-go/vkc/bench"
)

var (
	vkcPath = flag.String("vkc", "bin/vkc", "the vkc to measure")
	ops     = flag.String("ops", "", "the command that runs ggml's test-backend-ops")
	backend = flag.String("backend", "Vulkan0", "ggml's name of the device")
	rounds  = flag.Int("rounds", 3, "rounds of both sides")
	filter  = flag.String("filter", "", "only cases of vkc bench whose names match")
	anchors = flag.String("anchors", "", "write ggml's figures to this file")
	report  = flag.String("report", "", "write vkc's figures to this file")
	date    = flag.String("date", time.Now().Format(time.DateOnly), "of the anchors")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "alternate:", err)
		os.Exit(1)
	}
}

// run measures the selected cases with ggml and with vkc, in turns, and writes the best times of each.
func run() error {
	re, err := regexp.Compile(*filter)
	if err != nil {
		return err
	}
	pairs := slices.DeleteFunc(allPairs(), func(p pair) bool { return !re.MatchString(p.cases[0]) })
	if len(pairs) == 0 || *ops == "" {
		return fmt.Errorf("-ops %q, -filter %q: want ggml's command and a filter that matches a case", *ops, *filter)
	}
	dir, err := os.MkdirTemp("", "alternate-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	caseFile := filepath.Join(dir, "cases.txt")
	if err := os.WriteFile(caseFile, caseText(pairs), 0o600); err != nil {
		return err
	}
	theirs := map[string]float64{} // by name of the case of ggml
	var ours *bench.Report
	for round := range *rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, *rounds)
		if err := runGGML(caseFile, theirs); err != nil {
			return fmt.Errorf("ggml: %w", err)
		}
		r, err := runVkc(pairs, filepath.Join(dir, "round.json"))
		if err != nil {
			return fmt.Errorf("vkc: %w", err)
		}
		if ours == nil {
			ours = r
		}
		keepBest(ours, r)
	}
	return write(pairs, theirs, ours)
}

// runGGML measures the cases once with ggml's tool, and stores a case's time, in microseconds, in best if it is smaller
// than the one there.
func runGGML(caseFile string, best map[string]float64) error {
	words := append(strings.Fields(*ops), "perf", "-b", *backend, "--test-file", caseFile)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		m := ggmlLine.FindStringSubmatch(line)
		if m == nil { // a heading, or a case that ggml does not run
			continue
		}
		us, err := strconv.ParseFloat(m[2], 64)
		if err != nil || us <= 0 {
			return fmt.Errorf("no time in %q", line)
		}
		if old, ok := best[m[1]]; !ok || us < old {
			best[m[1]] = us
		}
		found++
	}
	if found == 0 {
		return fmt.Errorf("no times in what it printed:\n%s", out)
	}
	return nil
}

var ggmlLine = regexp.MustCompile(`\(name=([^,]+),.*\):\s+[0-9]+ runs -\s+([0-9.]+) us/run`)

// runVkc measures the cases once with vkc bench, which writes its report to path.
func runVkc(pairs []pair, path string) (*bench.Report, error) {
	var names []string
	for _, p := range pairs {
		for _, c := range p.cases {
			names = append(names, regexp.QuoteMeta(c))
		}
	}
	slices.Sort(names) // for Compact: several pairs may name the same case
	cmd := exec.Command(*vkcPath, "bench", "--quiet", "--scale", "full", "--no-tuning", "--output", path,
		"--filter", "^("+strings.Join(slices.Compact(names), "|")+")$")
	cmd.Stdout, cmd.Stderr = nil, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return bench.ReadReport(path)
}

// keepBest replaces results by faster ones of a round.
func keepBest(best, round *bench.Report) {
	for i := range best.Results {
		if r := round.Find(best.Results[i].Name); r != nil && r.Status == bench.OK &&
			r.Micros < best.Results[i].Micros {
			best.Results[i] = *r
		}
	}
}

// write prints a table of both times of each case and, if the flags ask for them, writes vkc's report and the file of
// ggml's times.
func write(pairs []pair, theirs map[string]float64, ours *bench.Report) error {
	out := bufio.NewWriter(os.Stdout)
	var points []bench.Point
	for _, p := range pairs {
		us, ok := theirs[p.name]
		if !ok {
			fmt.Fprintf(out, "%s\tggml does not run it\n", p.name)
			continue
		}
		for _, c := range p.cases {
			if r := ours.Find(c); r != nil && r.Status == bench.OK {
				points = append(points, bench.Point{Case: c, By: p.by, Micros: us})
				fmt.Fprintf(out, "%s\tvkc %.2f us\t%s %.2f us\t%.2f\n", c, r.Micros, p.by, us, us/r.Micros)
			}
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if *report != "" {
		if err := writeJSON(*report, ours); err != nil {
			return err
		}
	}
	if *anchors == "" {
		return nil
	}
	return writeJSON(*anchors, bench.AnchorFile{
		Format: bench.AnchorFormat, Device: ours.Device, Driver: ours.Driver, Date: *date,
		About:   fmt.Sprintf("ggml by its own benchmark of ops, in turns with vkc in one run, the best of %d rounds.", *rounds),
		Anchors: points,
	})
}

// writeJSON writes v to a file as indented JSON.
func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
