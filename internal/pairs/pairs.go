// Package pairs reduces combinatorial test cases by pairwise selection: if some case has two properties together, a
// selected case has both. Faults that need three properties at once are rare (Kuhn, Wallace and Gallo 2004), and each
// case costs seconds on a software device.
package pairs

import (
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
}

// Pick returns a subset of a list of cases. It covers everything that the list covers of the following: each name, each
// pair of property values in one case, and each name with each of its PerName values.
func Pick[T any](list []T, of func(T) Of) []T {
	return Cover(list, func(c T) (keys []string) {
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
		return keys
	})
}

// Cover returns a subset of the cases with the same keys as the whole list. It repeatedly adds the case with the most
// new keys, and returns the cases in list order. The result is deterministic.
func Cover[T any](list []T, keys func(T) []string) []T {
	if os.Getenv(Env) == "all" {
		return list
	}
	numbers := map[string]int{} // of keys
	has := make([][]int, len(list))
	for i, c := range list {
		for _, key := range keys(c) {
			if _, ok := numbers[key]; !ok {
				numbers[key] = len(numbers)
			}
			has[i] = append(has[i], numbers[key])
		}
		slices.Sort(has[i])
		has[i] = slices.Compact(has[i])
	}
	covered, picked := make([]bool, len(numbers)), make([]bool, len(list))
	adds := func(i int) (n int) {
		for _, key := range has[i] {
			if !covered[key] {
				n++
			}
		}
		return n
	}
	for {
		best, most := 0, 0
		for i := range list {
			if n := adds(i); n > most {
				best, most = i, n
			}
		}
		if most == 0 {
			break
		}
		picked[best] = true
		for _, key := range has[best] {
			covered[key] = true
		}
	}
	var few []T
	for i, c := range list {
		if picked[i] {
			few = append(few, c)
		}
	}
	return few
}
