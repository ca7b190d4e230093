package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/compiler"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/optest"
	"github.com/vkc-go/vkc/runtime"
)

// errCompiles means that a case was compiled to GLSL.
var errCompiles = errors.New("compiles")

// missing matches the missing feature or limit in an error of the compiler.
var missing = regexp.MustCompile(`feature (\w+):|(max\w+) \d+:`)

// backends returns the section of docs/OPS.md that says which ops and dtypes each device profile supports. It compiles
// a case of each op and dtype for every profile.
func backends() (string, error) {
	profiles := device.Kinds()
	filter, dtypes := oneOfEach()
	columns := map[string]map[ir.Op]string{}
	for _, name := range profiles {
		cells, err := compileFor(name, filter)
		if err != nil {
			return "", fmt.Errorf("profile %s: %w", name, err)
		}
		columns[name] = cells
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Where ops run\n\n"+
		"The CPU reference runs every op with every dtype that the table lists. For each device profile the "+
		"table shows\n"+
		"which of these dtypes compile. \"yes\" means all of them. Otherwise a cell lists the refused "+
		"dtypes, with the\n"+
		"missing device feature in brackets (`vkc devices --json` lists features). bf16 and f8e4m3 are "+
		"stored as bits and\n"+
		"computed in f32 everywhere. `vkc verify --ops` runs each op on a real device and checks it.\n\n"+
		"| op | dtypes | %s |\n|---|---|%s\n",
		strings.Join(profiles, " | "), strings.Repeat("---|", len(profiles)))
	for _, op := range ir.Ops() {
		fmt.Fprintf(&b, "| `%s` | %s |", op, names(dtypes[op]))
		for _, name := range profiles {
			cell := columns[name][op]
			if cell == "" {
				cell = "yes"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		b.WriteString("\n")
	}
	return b.String(), nil
}

// oneOfEach matches a case of each op and dtype.
func oneOfEach() (cases *regexp.Regexp, dtypes map[ir.Op][]ir.DType) {
	var list []string
	dtypes = map[ir.Op][]ir.DType{}
	for _, c := range optest.Cases() {
		if !slices.Contains(dtypes[c.Op], c.DType) {
			dtypes[c.Op] = append(dtypes[c.Op], c.DType)
			list = append(list, regexp.QuoteMeta(c.Name))
		}
	}
	return regexp.MustCompile("^(" + strings.Join(list, "|") + ")$"), dtypes
}

// names returns the names of dtypes, separated by spaces.
func names(list []ir.DType) string {
	var s []string
	for _, t := range list {
		s = append(s, t.String())
	}
	return strings.Join(s, " ")
}

// compileFor compiles a case of each op and dtype for a profile. For each op with dtypes that the profile does not
// support, it returns the cell of the table: these dtypes, and the missing features.
func compileFor(profile string, filter *regexp.Regexp) (map[ir.Op]string, error) {
	caps, err := device.Profile(profile)
	if err != nil {
		return nil, err
	}
	backend := func(ctx context.Context, g *ir.Graph, _ ir.WeightSource) (runtime.Executable, error) {
		if _, err := compiler.Lower(ctx, g, caps, nil); err != nil {
			return nil, err
		}
		return nil, errCompiles // not to run it
	}
	report, err := optest.Run(context.Background(), backend, optest.Options{Filter: filter, Batch: 1})
	if err != nil {
		return nil, err
	}
	refused := map[ir.Op]map[string][]string{} // op, missing feature, dtypes
	for _, r := range report.Results {
		switch {
		case r.Outcome == optest.Fail && r.Reason == errCompiles.Error():
		case r.Outcome == optest.Refusal:
			op, err := ir.ParseOp(r.Op)
			if err != nil {
				return nil, err
			}
			if refused[op] == nil {
				refused[op] = map[string][]string{}
			}
			lacks := lacking(r.Reason)
			refused[op][lacks] = append(refused[op][lacks], r.DType.String())
		default:
			return nil, fmt.Errorf("%s: %s", r.Case, r.Reason)
		}
	}
	cells := map[ir.Op]string{}
	for op, by := range refused {
		var parts []string
		for lacks, dtypes := range by {
			parts = append(parts, fmt.Sprintf("not %s (%s)", strings.Join(dtypes, " "), lacks))
		}
		slices.Sort(parts)
		cells[op] = strings.Join(parts, ", ")
	}
	return cells, nil
}

// lacking returns the names of missing device features in the text of an error, or the text itself if it names none.
func lacking(reason string) string {
	var list []string
	for _, m := range missing.FindAllStringSubmatch(reason, -1) {
		if name := m[1] + m[2]; !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return reason
	}
	return strings.Join(list, ", ")
}
