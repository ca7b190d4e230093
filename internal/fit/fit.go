package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/format"
	"math"
	"slices"
	"strconv"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/schedule"
)

// Weights of the objective, a sum over kernels of:
//
//   - the regret, the logarithm of the measured time of the chosen tile over the fastest measured one. The choice is
//     smoothed: each tile has a share that falls with its estimated time (choiceWidth), so that a tile that is slow in
//     fact should be clearly slower by the estimate;
//   - errorWeight times the mean square of the logarithm of estimated over measured time. Passes compare such times.
//
// To this it adds, for each rate that differs from its first value, changeWeight, and priorWeight times the square of
// the logarithm of their ratio. So the fit changes few rates, those that gain much.
const (
	choiceWidth  = 0.01
	errorWeight  = 5
	priorWeight  = 0.5
	changeWeight = 0.2
	anchorWeight = 4.0 // of kernels of which the first rates were measured
	slowWeight   = 0.2 // of errors of tiles slower than slowFrom times the fastest, of which few runs were timed
	slowFrom     = 1.6
)

// The fit searches rates that are the first value times a power of step, by up to maxSteps steps.
const (
	step     = 1.02
	maxSteps = 40
	sweeps   = 20
)

// outlier is the logarithm from which an error counts no more: the first runs of a tile are sometimes disturbed.
const outlier = 0.4

// fit has the measurements and the rates that it adjusts.
type fit struct {
	sets    []*dataset
	rates   []schedule.TileRate // as they are now
	first   []schedule.TileRate // before the fit
	steps   [][2]int            // of each rate: of Efficiency and Alone
	kernels []*subject
	uses    [][]*subject // of each rate
	// overhead is, for each dataset, the time of a measured dispatch apart from its kernel, in nanoseconds.
	overhead []float64
}

// subject is a kernel with measured tiles of which some have rates.
type subject struct {
	measured
	set     int
	index   int // of the kernel in its dataset
	tiles   []sample
	fastest float64 // the smallest measured time of a tile with a rate, in microseconds
}

// sample is a measured tile with a rate.
type sample struct {
	timed
	rate     int // index in fit.rates
	estimate float64
}

// newFit prepares a fit of the rates of tiles to the measurements of some devices and to the anchors, its last dataset.
// It assigns each measured time to the first rate that suits the kernel. It leaves out kernels with fewer than two such
// times, which say nothing about the choice of a tile.
func newFit(sets []*dataset, rates []schedule.TileRate) *fit {
	sets = append(slices.Clone(sets), anchors(rates))
	f := &fit{sets: sets, rates: append([]schedule.TileRate(nil), rates...), first: rates,
		steps: make([][2]int, len(rates)), uses: make([][]*subject, len(rates)), overhead: make([]float64, len(sets))}
	for n, d := range sets {
		f.overhead[n] = d.machine.LaunchNs
		for index, k := range d.kernels {
			s := &subject{measured: k, set: n, index: index}
			used := map[int]bool{} // rates
			for _, t := range k.tiles {
				i := slices.IndexFunc(rates, func(r schedule.TileRate) bool { return r.Suits(k.traits, t.Rated) })
				if i >= 0 {
					s.tiles = append(s.tiles, sample{timed: t, rate: i})
					used[i] = true
				}
			}
			if len(s.tiles) < 2 {
				continue
			}
			s.fastest = slices.MinFunc(s.tiles, func(a, b sample) int { return cmp.Compare(a.micros, b.micros) }).micros
			f.kernels = append(f.kernels, s)
			for i := range used {
				f.uses[i] = append(f.uses[i], s)
			}
		}
	}
	return f
}

// anchors returns a dataset of large matmuls and attentions with the times that the given rates estimate. With it the
// fit keeps the choices of these kernels, which the first rates were measured with, unless other measurements outweigh
// them.
func anchors(rates []schedule.TileRate) *dataset {
	// The device is about an H100.
	d := &dataset{cores: 132, machine: device.Machine{CopyGBps: 2500, MatrixF16: 600, MatrixI8: 1250, VectorF32: 60}}
	for _, size := range []int64{512, 2048, 4096} {
		for _, table := range []schedule.RateTable{schedule.RatesMatrix, schedule.RatesBytes, schedule.RatesFloat,
			schedule.RatesFlash} {
			for _, t := range []schedule.Traits{{MatMuls: 1}, {MatMuls: 1, Blocks: true}, {MatMuls: 1, Runs: true},
				{MatMuls: 2}, {MatMuls: 2, Blocks: true}} {
				t.Rows = size
				// Only rates of table RatesMatrix depend on traits other than rows.
				if table != schedule.RatesMatrix && t != (schedule.Traits{Rows: size, MatMuls: 1}) {
					continue
				}
				k := measured{label: string(table), traits: t}
				for _, r := range rates {
					if m := r.Square(size); r.Table == table && r.Suits(t, m) {
						k.tiles = append(k.tiles, timed{m, r.Time(m, d.machine, d.cores) / 1e3})
					}
				}
				d.kernels = append(d.kernels, k)
			}
		}
	}
	return d
}

// run sets the rates: it adjusts one after the other to the best value near its present one, until nothing gets better
// or after the given number of sweeps.
func (f *fit) run() {
	for range sweeps {
		better := f.overheads()
		for i := range f.rates {
			for which := range 2 { // Efficiency and Alone
				better = f.adjust(i, which) || better
			}
		}
		if !better {
			return
		}
	}
}

// overheads sets the overhead of each device to the value of its grid for which the errors are the smallest, and
// reports whether one changed.
func (f *fit) overheads() (changed bool) {
	for n := range f.sets {
		best, least, was := f.overhead[n], math.Inf(1), f.overhead[n]
		for ns := 0.0; ns <= 8000; ns += 100 {
			f.overhead[n] = ns
			sum := 0.0
			for _, s := range f.kernels {
				if s.set == n {
					f.estimate(s)
					sum += f.error2(s)
				}
			}
			if sum < least-1e-7 { // ignore rounding errors
				best, least = ns, sum
			}
		}
		f.overhead[n] = best
		changed = changed || best != was
	}
	return changed
}

// adjust moves one rate of tile i, its Efficiency or its Alone, to the best grid point near its present one, and
// reports whether that made the objective smaller.
func (f *fit) adjust(i, which int) bool {
	if len(f.uses[i]) == 0 || which == 1 && f.first[i].Alone == 0 { // no kernel depends on this rate
		return false
	}
	now := f.steps[i][which]
	best, least := now, f.objective(i)
	// Larger steps skip small local minima.
	for _, move := range []int{-8, -4, -2, -1, 1, 2, 4, 8} {
		n := now + move
		if n < -maxSteps || n > maxSteps {
			continue
		}
		f.set(i, which, n)
		if o := f.objective(i); o < least-1e-7 {
			best, least = n, o
		}
	}
	f.set(i, which, best)
	return best != now
}

// set sets one rate of tile i: its Efficiency if which is 0, and otherwise its Alone. The new rate is the first value
// times step to the power of steps, rounded to three digits after the point.
func (f *fit) set(i, which, steps int) {
	f.steps[i][which] = steps
	first := []float64{f.first[i].Efficiency, f.first[i].Alone}[which]
	value := math.Round(first*math.Pow(step, float64(steps))*1000) / 1000
	if steps == 0 { // the first value stays as it is, not rounded
		value = first
	}
	if which == 0 {
		f.rates[i].Efficiency = value
	} else {
		f.rates[i].Alone = value
	}
}

// objective returns the part of the objective that depends on the rates of tile i.
func (f *fit) objective(i int) float64 {
	sum := 0.0
	for _, s := range f.uses[i] {
		sum += f.cost(s)
	}
	for _, n := range f.steps[i] {
		if n != 0 {
			sum += changeWeight
		}
		x := float64(n) * math.Log(step)
		sum += float64(priorWeight * float64(x*x))
	}
	return sum
}

// cost returns a kernel's part of the objective.
func (f *fit) cost(s *subject) float64 {
	f.estimate(s)
	least := math.Inf(1)
	for _, t := range s.tiles {
		least = min(least, t.estimate)
	}
	shares, regret := 0.0, 0.0
	for _, t := range s.tiles {
		// This is (t.estimate/least) to the power of -1/choiceWidth: 1 for the tile that the estimates choose.
		share := math.Exp(-math.Log(t.estimate/least) / choiceWidth)
		shares += share
		regret += float64(share * math.Log(t.micros/s.fastest))
	}
	cost := regret/shares + float64(errorWeight*f.error2(s))
	if s.set == len(f.sets)-1 { // the last dataset has the anchors
		cost *= anchorWeight
	}
	return cost
}

// estimate estimates the times of the tiles, in nanoseconds, as the choice of a tile compares them.
func (f *fit) estimate(s *subject) {
	d := f.sets[s.set]
	for i := range s.tiles {
		t := &s.tiles[i]
		t.estimate = f.rates[t.rate].Time(t.Rated, d.machine, d.cores)
	}
}

// logError returns the logarithm of the estimated over the measured time of a tile.
func (f *fit) logError(s *subject, t sample) float64 {
	ns := max(t.estimate, s.traits.ReadNs) + s.traits.StoreNs + f.overhead[s.set]
	return math.Log(ns / (1e3 * t.micros))
}

// error2 returns the weighted mean square of the errors of a kernel's estimates, where an error is the logarithm of
// estimated over measured time.
func (f *fit) error2(s *subject) float64 {
	sum, weights, fastest := 0.0, 0.0, s.fastest
	for _, t := range s.tiles {
		weight := 1.0
		if t.micros > slowFrom*fastest {
			weight = slowWeight
		}
		e := min(math.Abs(f.logError(s, t)), outlier)
		sum, weights = sum+float64(weight*float64(e*e)), weights+weight
	}
	return sum / weights
}

// source returns the Go source of a map of the rates that differ from their first values.
func (f *fit) source() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("// Code generated by \"go run ./internal/fit\"; DO NOT EDIT.\n\npackage schedule\n\n" +
		"// nvidiaRates has the rates of NVIDIA's tiles that the fit to measurements found, by [TileRate.Key] " +
		"(M-fit).\nvar nvidiaRates = map[string]rate{\n")
	for i, r := range f.rates {
		if f.steps[i] != [2]int{} {
			fmt.Fprintf(&b, "\t%q: {%s, %s},\n", r.Key(), number(r.Efficiency), number(r.Alone))
		}
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
