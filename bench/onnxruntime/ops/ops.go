// Ops compares the results of single ops with onnxruntime's, and prints the table of docs/ONNX.md:
//
//	npm install --ignore-scripts --prefix .tools/onnxruntime onnxruntime-node@1.30.0
//	cd bench/onnxruntime
//	go run ./ops ../../frontend/onnx/testdata/contrib.txt
//	go run ./ops -record ../../frontend/onnx/testdata/contrib-results.txt ../../frontend/onnx/testdata/contrib.txt
//
// A file of cases has the form of package onnxtest. The second form also records onnxruntime's results for the tests
// of frontend/onnx.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vkc-go/vkc/bench/onnxruntime/peer"
	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/frontend/onnx/onnxtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

var (
	folder  = flag.String("peer", "../../.tools/onnxruntime", "the `FOLDER` with node_modules/onnxruntime-node")
	record  = flag.String("record", "", "write summaries of onnxruntime's results to this `FILE`")
	verbose = flag.Bool("v", false, "print results that differ")
)

func main() {
	flag.Parse()
	err := peer.With(*folder, func(ort *peer.Peer, scratch string) error {
		for _, path := range flag.Args() {
			if err := check(ort, scratch, path, *record); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// opRow is a row of the table of checked ops.
type opRow struct {
	cases int
	worst float64 // the largest difference, relative to the largest number of a result, or of integers the difference
	bad   int     // cases with a larger difference than allowed
}

// compare compares vkc's results of a case with onnxruntime's. It returns an error if they differ too much.
func (r *opRow) compare(c *onnxtest.Case, theirs map[string]*ir.Data) error {
	r.cases++
	ours, err := computed(c)
	if err != nil {
		return err
	}
	worst, err := difference(c, ours, theirs)
	if err != nil {
		return err
	}
	r.worst = max(r.worst, worst)
	if !(worst <= c.Tolerance) {
		return fmt.Errorf("difference %.3g", worst)
	}
	return nil
}

// check compares the results of cases in a file with onnxruntime's, and prints a row for each op. If record is not "",
// it writes summaries of onnxruntime's results to this file.
func check(ort *peer.Peer, scratch, path, record string) error {
	cases, err := onnxtest.Read(path)
	if err != nil {
		return err
	}
	rows := map[string]*opRow{}
	var recorded strings.Builder
	failed := 0
	for _, c := range cases {
		name := c.Op
		if c.Domain != "com.microsoft" {
			name = c.Domain + "." + c.Op
		}
		row := rows[name]
		if row == nil {
			row = &opRow{}
			rows[name] = row
		}
		theirs, err := answered(ort, c, scratch)
		if err != nil {
			failed++
			fmt.Fprintf(os.Stderr, "%s\n  %v\n", c.Line, err)
			continue
		}
		line, err := c.Results(theirs)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Line, err)
		}
		fmt.Fprintln(&recorded, line)
		if err := row.compare(c, theirs); err != nil {
			failed++
			row.bad++
			fmt.Fprintf(os.Stderr, "%s\n  %v\n", c.Line, err)
		}
	}
	total := printRows(rows)
	fmt.Printf("\n%d cases of %d ops, %d differ\n", total, len(rows), failed)
	if record != "" {
		return os.WriteFile(record, []byte(recorded.String()), 0o644)
	}
	return nil
}

// printRows prints the table of the ops, and returns the number of cases in all rows.
func printRows(rows map[string]*opRow) (cases int) {
	fmt.Println("| op | cases | largest difference |")
	fmt.Println("|---|---:|---:|")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		row := rows[name]
		cases += row.cases
		note := ""
		if row.bad > 0 {
			note = fmt.Sprintf(" (%d cases differ)", row.bad)
		}
		fmt.Printf("| %s | %d | %.1g%s |\n", name, row.cases, row.worst, note)
	}
	return cases
}

// answered returns onnxruntime's results of a case, by name.
func answered(ort *peer.Peer, c *onnxtest.Case, scratch string) (map[string]*ir.Data, error) {
	path := filepath.Join(scratch, "model.onnx")
	if err := os.WriteFile(path, c.Model, 0o600); err != nil {
		return nil, err
	}
	files, err := peer.Write(c.Fed(), scratch)
	if err != nil {
		return nil, err
	}
	answer, err := ort.Ask(peer.Request{Load: path, Threads: 1, Folder: scratch, Inputs: files, Plain: true})
	if err != nil {
		return nil, err
	}
	out := map[string]*ir.Data{}
	for _, f := range answer.Outputs {
		raw, err := os.ReadFile(f.File)
		if err != nil {
			return nil, err
		}
		for t, name := range peer.Types {
			if name == f.Type {
				out[f.Name] = &ir.Data{DType: t, Dims: f.Dims, Bytes: raw}
			}
		}
		if out[f.Name] == nil {
			return nil, fmt.Errorf("result %s is of %s", f.Name, f.Type)
		}
	}
	return out, nil
}

// computed returns the results of a case by vkc's reference, by name.
func computed(c *onnxtest.Case) (map[string]*ir.Data, error) {
	f, err := onnx.NewReader(c.Model, onnx.Options{})
	if err != nil {
		return nil, err
	}
	p, err := interp.New(f.Graph, interp.Options{Weights: f})
	if err != nil {
		return nil, err
	}
	fed := c.Fed()
	// vkc's graph lacks inputs that no op uses.
	for name := range fed {
		if _, ok := f.Graph.Named(name); !ok {
			delete(fed, name)
		}
	}
	out, err := p.Run(context.Background(), fed, nil)
	if err != nil {
		return nil, err
	}
	return out, f.Graph.OutputInfo().Trim(out)
}

// difference returns the largest difference of an element between two sets of results. For floats it is relative to the
// largest finite element of its result. It is infinite if only one of them is NaN.
func difference(c *onnxtest.Case, ours, theirs map[string]*ir.Data) (worst float64, err error) {
	for _, name := range c.Outputs {
		a, b := ours[name], theirs[name]
		if a == nil || b == nil || a.DType != b.DType || !slices.Equal(a.Dims, b.Dims) {
			return 0, fmt.Errorf("result %s is %v, onnxruntime's %v", name, a, b)
		}
		x, err := a.Floats()
		if err != nil {
			return 0, err
		}
		y, err := b.Floats()
		if err != nil {
			return 0, err
		}
		largest, most := 1e-30, 0.0 // not 0, which it divides by
		for i := range y {
			// Equal infinities would differ by NaN.
			if math.IsNaN(x[i]) && math.IsNaN(y[i]) || x[i] == y[i] {
				continue
			}
			most = max(most, math.Abs(x[i]-y[i]))
			if math.IsNaN(x[i]) != math.IsNaN(y[i]) {
				return math.Inf(1), nil
			}
		}
		for _, v := range y {
			if !math.IsInf(v, 0) && !math.IsNaN(v) {
				largest = max(largest, math.Abs(v))
			}
		}
		if a.DType.IsFloat() {
			most /= largest
		}
		worst = max(worst, most)
		if *verbose && most > c.Tolerance {
			fmt.Fprintf(os.Stderr, "%s\n  vkc %.5g\n  ort %.5g\n", name, x[:min(len(x), 48)], y[:min(len(y), 48)])
		}
	}
	return worst, nil
}
