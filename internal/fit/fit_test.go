package main

import (
	"bytes"
	"cmp"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// TestTree: the rates and the table in the tree are those that the command writes for the data in the tree.
func TestTree(t *testing.T) {
	dir, err := fs.Sub(dataFiles, "data")
	if err != nil {
		t.Fatal(err)
	}
	sets, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	measured, fitted := schedule.NVIDIARates()
	f := newFit(sets, measured)
	f.run()
	source, err := f.source()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(filepath.Join("../..", ratesFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(source), string(have)); diff != "" {
		t.Errorf("%s is not the fit to the data; go run ./internal/fit writes it:\n%s", ratesFile, diff)
	}
	page, err := os.ReadFile(filepath.Join("../..", tableFile))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := insert(page, f.table()); err != nil || !bytes.Equal(want, page) {
		t.Errorf("the table of residuals in %s is old; go run ./internal/fit writes it: %v", tableFile, err)
	}
	for i, r := range fitted {
		if r.Efficiency != f.rates[i].Efficiency || r.Alone != f.rates[i].Alone {
			t.Errorf("%s: the heuristics have %g, %g; the fit has %g, %g", r.Key(), r.Efficiency, r.Alone,
				f.rates[i].Efficiency, f.rates[i].Alone)
		}
	}
}

// TestFit: choices get better by a fit to times that were computed with other rates.
func TestFit(t *testing.T) {
	first, _ := schedule.NVIDIARates()
	real := slices.Clone(first)
	for i := range real {
		factor := []float64{1, 1.3, 0.7}[i%3]
		real[i].Efficiency, real[i].Alone = factor*real[i].Efficiency, factor*real[i].Alone
	}
	d := &dataset{device: "test", cores: 132, machine: device.Machine{CopyGBps: 2500, MatrixF16: 600, MatrixI8: 1250,
		VectorF32: 60, LaunchNs: 2000}}
	for _, groups := range []int64{20, 50, 80, 100, 120, 132, 150, 200, 250, 300, 400, 500, 700, 1000, 2000, 4000} {
		for _, table := range []schedule.RateTable{schedule.RatesMatrix, schedule.RatesFlash} {
			k := measured{label: string(table), standard: "tile", traits: schedule.Traits{Rows: 1 << 20, MatMuls: 1}}
			for i, r := range real {
				m := schedule.Rated{Table: table, Tile: r.Tile, Groups: groups, Flops: 2e7, Slow: 1}
				if r.Suits(k.traits, m) {
					us := (real[i].Time(m, d.machine, d.cores) + 2000) / 1e3
					k.tiles = append(k.tiles, timed{m, us})
				}
			}
			d.kernels = append(d.kernels, k)
		}
	}
	for i := range d.kernels {
		k := &d.kernels[i]
		k.best = math.Inf(1)
		for _, x := range k.tiles {
			k.best = min(k.best, x.micros)
		}
		k.first = k.best
	}
	again, err := parse(d.text())
	if err != nil || !bytes.Equal(again.text(), d.text()) {
		t.Fatalf("the data change when they are written and read: %v", err)
	}
	f := newFit([]*dataset{d}, first)
	before := lost(f)
	f.run()
	if after := lost(f); after > before/2 || before < 0.02 {
		t.Errorf("the choices lost %.3f and lose %.3f", before, after)
	}
}

// lost is the mean logarithm of the time of the chosen tile over that of the fastest.
func lost(f *fit) float64 {
	sum, n := 0.0, 0
	for _, s := range f.kernels {
		if s.set > 0 {
			continue // anchors
		}
		f.estimate(s)
		best := slices.MinFunc(s.tiles, func(a, b sample) int { return cmp.Compare(a.estimate, b.estimate) })
		sum, n = sum+math.Log(best.micros/s.fastest), n+1
	}
	return sum / float64(n)
}

// TestParse: damaged data are errors.
func TestParse(t *testing.T) {
	for _, text := range []string{"device\tx\n", "+\t0\t1\t1\t1\t1\n", "kernel\tx\ty\t1\t1\n+\t0\t1\t1\t1\t1\n",
		"tile\ta\tb\tc\n", "what\n", "kernel\tx\ty\t1\tz\n"} {
		if d, err := parse([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, d)
		}
	}
}
