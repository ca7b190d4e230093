package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// residuals sums up the kernels of one kind.
type residuals struct {
	kind                string
	kernels             int
	regret, worst       float64   // of the default as measured: sum of logarithms, and largest ratio
	fitted, worstFitted float64   // of the choice by the fitted rates
	before, after       []float64 // logarithms of estimated over measured times, absolute
}

// kindOf names the kind of a kernel: its family and largest dtype, from its label, and the variant of its default.
func kindOf(k measured) string {
	words := strings.Fields(strings.Split(k.label, " at ")[0])
	return fmt.Sprintf("%s %s, %s", words[0], words[len(words)-1], k.standard)
}

// table returns the residuals as Markdown: a row for each kind of kernels of each device.
func (f *fit) table() string {
	var b strings.Builder
	for n, d := range f.sets[:len(f.sets)-1] { // without the anchors
		fmt.Fprintf(&b, "%s, driver %s: %d kernels. Overhead of a measured dispatch: %.1f us.\n\n", d.device,
			d.driver, len(d.kernels), f.overhead[n]/1e3)
		b.WriteString("| kernels | number | default / best | worst | fitted / best | worst | error before | " +
			"error after |\n|---|---|---|---|---|---|---|---|\n")
		all := f.residuals(n)
		total := residuals{kind: "all"}
		for _, r := range all {
			total.kernels, total.regret = total.kernels+r.kernels, total.regret+r.regret
			total.worst = max(total.worst, r.worst)
			total.fitted, total.worstFitted = total.fitted+r.fitted, max(total.worstFitted, r.worstFitted)
			total.before, total.after = append(total.before, r.before...), append(total.after, r.after...)
		}
		for _, r := range append(all, total) {
			b.WriteString(r.row())
		}
		b.WriteString("\n")
	}
	return b.String()
}

// row formats one row of the table.
func (r residuals) row() string {
	mean := func(sum float64) string { return fmt.Sprintf("%.3f", math.Exp(sum/float64(r.kernels))) }
	cells := []string{r.kind, fmt.Sprint(r.kernels), mean(r.regret), fmt.Sprintf("%.2f", r.worst), mean(r.fitted),
		fmt.Sprintf("%.2f", r.worstFitted), "", ""}
	if len(r.before) > 0 {
		cells[6], cells[7] = median(r.before), median(r.after)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

// median formats the median of logarithms as a percentage.
func median(logs []float64) string {
	logs = slices.Sorted(slices.Values(logs))
	return fmt.Sprintf("%.0f %%", 100*math.Expm1(logs[len(logs)/2]))
}

// residuals returns, by kind of kernel, how well the rates predict the measurements of a set (those of one device),
// before and after the fit. A kernel that is not chosen by estimates counts with its default schedule in both.
func (f *fit) residuals(set int) []residuals {
	kinds := map[string]*residuals{}
	of := func(k measured) *residuals {
		kind := kindOf(k)
		if kinds[kind] == nil {
			kinds[kind] = &residuals{kind: kind}
		}
		return kinds[kind]
	}
	chosen := map[int]float64{}                      // the measured time of the choice, by the index of the kernel
	prior := newFit(f.sets[:len(f.sets)-1], f.first) // without the anchors, which newFit adds
	copy(prior.overhead, f.overhead)
	for i, s := range f.kernels {
		if s.set != set {
			continue
		}
		f.estimate(s)
		prior.estimate(prior.kernels[i])
		r := of(s.measured)
		least := math.Inf(1)
		for j, t := range s.tiles {
			if t.estimate < least {
				least, chosen[s.index] = t.estimate, t.micros
			}
			before := prior.logError(prior.kernels[i], prior.kernels[i].tiles[j])
			r.before = append(r.before, math.Abs(before))
			r.after = append(r.after, math.Abs(f.logError(s, t)))
		}
	}
	for i, k := range f.sets[set].kernels {
		r := of(k)
		fitted := cmp.Or(chosen[i], k.first)
		r.kernels++
		r.regret, r.worst = r.regret+math.Log(k.first/k.best), max(r.worst, k.first/k.best)
		r.fitted, r.worstFitted = r.fitted+math.Log(fitted/k.best), max(r.worstFitted, fitted/k.best)
	}
	list := make([]residuals, 0, len(kinds))
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		list = append(list, *kinds[kind])
	}
	return list
}
