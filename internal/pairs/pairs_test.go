package pairs

import (
	"fmt"
	"slices"
	"testing"
)

// combination is a case of four properties.
type combination [4]int

// combinations lists all combinations of two or three values for each property, except the impossible ones.
func combinations() (list []combination) {
	for i := range 3 * 3 * 2 * 3 {
		c := combination{i % 3, i / 3 % 3, i / 9 % 2, i / 18}
		if c[0] != 2 || c[1] != 1 { // impossible together
			list = append(list, c)
		}
	}
	return list
}

func of(c combination) Of {
	return Of{Name: fmt.Sprint("case ", c[0]), Properties: []any{c[0], c[1], c[2] == 1, c[3]}}
}

// pairsOf are the pairs of properties that cases have.
func pairsOf(list []combination) map[[4]int]bool {
	all := map[[4]int]bool{}
	for _, c := range list {
		for j := range c {
			for i := range j {
				all[[4]int{i, c[i], j, c[j]}] = true
			}
		}
	}
	return all
}

// TestPick: few cases have every pair that all of them have.
func TestPick(t *testing.T) {
	t.Setenv(Env, "")
	all := combinations()
	few := Pick(all, of)
	if have, want := len(pairsOf(few)), len(pairsOf(all)); have != want {
		t.Errorf("%d pairs of %d", have, want)
	}
	if len(few) > len(all)/3 || len(few) < 8 { // as many as the two largest properties have pairs
		t.Errorf("%d cases of %d", len(few), len(all))
	}
	if !slices.IsSortedFunc(few, func(a, b combination) int { return slices.Index(all, a) - slices.Index(all, b) }) {
		t.Errorf("out of order: %v", few)
	}
	if again := Pick(all, of); !slices.Equal(few, again) {
		t.Errorf("first %v, then %v", few, again)
	}
}

// TestPickCosts: cheap cases cover the pairs where they can, and a case that the others cover is dropped.
func TestPickCosts(t *testing.T) {
	t.Setenv(Env, "")
	all := combinations()
	dear := func(c combination) bool { return (c[0]+c[1]+c[2]+c[3])%2 == 1 }
	count := func(list []combination) (n int) {
		for _, c := range list {
			if dear(c) {
				n++
			}
		}
		return n
	}
	few := Pick(all, func(c combination) Of {
		o := of(c)
		if o.Cost = 1; dear(c) {
			o.Cost = 10
		}
		return o
	})
	if have, want := len(pairsOf(few)), len(pairsOf(all)); have != want {
		t.Errorf("%d pairs of %d", have, want)
	}
	if with, without := count(few), count(Pick(all, of)); with*2 > without {
		t.Errorf("%d dear cases of %d, and %d without costs", with, len(few), without)
	}
	keys := map[string][]string{"ab": {"a", "b"}, "ac": {"a", "c"}, "bd": {"b", "d"}}
	list := Cover([]string{"ab", "ac", "bd"}, func(name string) []string { return keys[name] })
	if !slices.Equal(list, []string{"ac", "bd"}) {
		t.Errorf("%v: the first case has no key of its own", list)
	}
}

// TestPickNames: each name keeps a case, though others have all its properties.
func TestPickNames(t *testing.T) {
	t.Setenv(Env, "")
	few := Pick([]string{"a", "a", "b", "c", "c"}, func(s string) Of { return Of{Name: s, Properties: []any{1, 2}} })
	if !slices.Equal(few, []string{"a", "b", "c"}) {
		t.Errorf("%v", few)
	}
	if few := Pick(nil, func(string) Of { return Of{} }); few != nil {
		t.Errorf("of nothing: %v", few)
	}
}

// TestPickPerName: a property of PerName meets each name, but not other properties of PerName.
func TestPickPerName(t *testing.T) {
	t.Setenv(Env, "")
	all := combinations()
	few := Pick(all, func(c combination) Of { return Of{Name: fmt.Sprint(c[0]), PerName: []any{c[1], c[2], c[3]}} })
	if len(few) > 9 || len(few) < 3 {
		t.Errorf("%d cases", len(few))
	}
	have, want := pairsOf(few), pairsOf(all)
	for pair := range want {
		if pair[0] == 0 && !have[pair] {
			t.Errorf("nothing has %v", pair)
		}
	}
}

// TestPickAll: an environment variable selects all cases.
func TestPickAll(t *testing.T) {
	t.Setenv(Env, "all")
	if all := combinations(); len(Pick(all, of)) != len(all) {
		t.Error("some are left out")
	}
}
