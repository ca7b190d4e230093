// Package pairs reduces combinatorial test cases by pairwise selection: if some case has two properties together, a
// selected case has both. Faults that need three properties at once are rare (Kuhn, Wallace and Gallo 2004), and each
// case costs seconds on a software device.
package pairs

import (
	"cmp"
	"fmt"
	"os"
	"slices"
)

// Env names the environment variable that makes tests run all cases when it is "all".
const Env = "VKC_TEST_CASES"

// Of describes a case to Pick. Pick keeps at least one case per Name. Properties[i] is the case's value of property i,
// such as a dtype for property 0 and a layout for property 1. All cases have the same properties.
type Of struct {
	Name       string
	Properties []any
	// PerName are properties that act on the name alone: Pick keeps their pairs with the name, but not with each other.
	PerName []any
	// Cost is how long the case takes, in any unit; 0 is 1. Among cases that cover as much, Pick prefers cheap ones.
	Cost float64
}

// Pick returns a small subset of a list of cases that covers what the list covers: each name, each pair of values of
// two properties in one case, and each name with each of its PerName values.
func Pick[T any](list []T, of func(T) Of) []T {
	return CoverAtCost(list, func(c T) (keys []string, cost float64) {
		o := of(c)
		keys = append(keys, o.Name)
		for i, a := range o.PerName {
			keys = append(keys, fmt.Sprint(o.Name, " has ", i, "=", a))
		}
		for j, b := range o.Properties {
			for k, a := range o.Properties[:j] {
				keys = append(keys, fmt.Sprint(k, "=", a, " ", j, "=", b))
			}
		}
		return keys, o.Cost
	})
}

// Cover returns a small subset of the cases, in list order. Function keys names the things that a case tests. Each key
// of a case in the list is also a key of a case in the subset. The same list always gives the same subset.
func Cover[T any](list []T, keys func(T) []string) []T {
	return CoverAtCost(list, func(c T) ([]string, float64) { return keys(c), 1 })
}

// CoverAtCost is Cover of cases with costs. It repeatedly picks the case with the most new keys for its cost.
func CoverAtCost[T any](list []T, of func(T) (keys []string, cost float64)) []T {
	if os.Getenv(Env) == "all" {
		return list
	}
	numbers := map[string]int{} // of keys
	has, costs := make([][]int, len(list)), make([]float64, len(list))
	for i, c := range list {
		keys, cost := of(c)
		costs[i] = cost
		if cost <= 0 {
			costs[i] = 1
		}
		for _, key := range keys {
			if _, ok := numbers[key]; !ok {
				numbers[key] = len(numbers)
			}
			has[i] = append(has[i], numbers[key])
		}
		slices.Sort(has[i])
		has[i] = slices.Compact(has[i])
	}
	picked, times := pick(has, costs, len(numbers))
	// Drop cases without a key of their own, the dearest first.
	slices.SortStableFunc(picked, func(i, j int) int { return cmp.Compare(costs[j], costs[i]) })
	picked = withoutCovered(picked, has, times)
	slices.Sort(picked)
	var few []T
	for _, i := range picked {
		few = append(few, list[i])
	}
	return few
}

// pick picks the case with the most new keys for its cost until all keys are covered. has lists the keys of each case.
// times counts how many picked cases have a key.
func pick(has [][]int, costs []float64, keys int) (picked, times []int) {
	times = make([]int, keys)
	worth := func(i int) float64 {
		fresh := 0
		for _, key := range has[i] {
			if times[key] == 0 {
				fresh++
			}
		}
		return float64(fresh) / costs[i]
	}
	for {
		best, most := 0, 0.0
		for i := range has {
			if w := worth(i); w > most {
				best, most = i, w
			}
		}
		if most == 0 {
			return picked, times
		}
		picked = append(picked, best)
		for _, key := range has[best] {
			times[key]++
		}
	}
}

// withoutCovered drops the cases, from the first one on, that have no key of their own. has lists the keys of each
// case, and times counts how many picked cases have a key.
func withoutCovered(picked []int, has [][]int, times []int) []int {
	return slices.DeleteFunc(picked, func(i int) bool {
		if slices.ContainsFunc(has[i], func(key int) bool { return times[key] == 1 }) {
			return false
		}
		for _, key := range has[i] {
			times[key]--
		}
		return true
	})
}
