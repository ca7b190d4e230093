package emit

import (
	"slices"

	"github.com/vkc-go/vkc/codegen/glsl/syntax"
)

// pruneFunctions removes definitions that no later definition uses, and unused parameters of functions with their
// arguments in calls. It keeps the functions in kept (custom ops and main), with their parameters.
func pruneFunctions(all, kept []*syntax.Definition) []*syntax.Definition {
	all = slices.Clone(all)
	keep := make([]bool, len(all))
	for i, d := range all {
		keep[i] = slices.Contains(kept, d)
	}
	// Dropping an argument may remove the last use of a caller's parameter, so callees come first.
	for i := range all {
		if !keep[i] {
			dropUnusedParams(all[i:])
		}
	}
	used := map[string]bool{}
	list := make([]*syntax.Definition, 0, len(all))
	for i, d := range slices.Backward(all) {
		if !keep[i] && !used[d.Name] {
			continue
		}
		list = append(list, d)
		d.Names(func(name string) { used[name] = true })
	}
	slices.Reverse(list)
	return list
}

// dropUnusedParams removes the unused parameters of the first definition, and their arguments in the later ones. It
// replaces the elements of list, and does not change the definitions, which are shared.
func dropUnusedParams(list []*syntax.Definition) {
	f := *list[0]
	params, unused := usedParams(&f, list[1:])
	if params == nil {
		return
	}
	f.Params, list[0] = params, &f
	if len(unused) == 0 {
		return
	}
	for i, caller := range list[1:] {
		if caller.Mentions(f.Name) {
			list[1+i] = caller.Map(func(x *syntax.Expr) *syntax.Expr { return dropArguments(x, f.Name, unused) })
		}
	}
}

// elementParameters is the number of parameters that coopMatPerElementNV passes to a function: row, column and element.
// Further arguments follow the function's name in the call.
const elementParameters = 3

// usedParams returns the parameters that a function uses, and the positions of the others. It returns nil if the
// function uses all. If a later function passes it to coopMatPerElementNV, its first elementParameters stay, without a
// name if it does not use them.
func usedParams(d *syntax.Definition, later []*syntax.Definition) (params []syntax.Param, unused []int) {
	used := map[string]bool{"": true}
	d.Names(func(name string) { used[name] = true })
	if !d.IsFunction() || !slices.ContainsFunc(d.Params, func(p syntax.Param) bool { return !used[p.Name] }) {
		return nil, nil
	}
	byName := false // passed by its name to another function
	for _, other := range later {
		other.Walk(func(x *syntax.Expr) { byName = byName || x.Op == syntax.Name && x.Text == d.Name })
	}
	params = []syntax.Param{}
	for place, p := range d.Params {
		switch {
		case used[p.Name]:
		case byName && place < elementParameters:
			p.Name = ""
		default:
			unused = append(unused, place)
			continue
		}
		params = append(params, p)
	}
	return params, unused
}

// dropArguments removes the arguments at the given positions of function `name`, if x calls the function or passes
// it to another one by name. It returns other expressions unchanged.
func dropArguments(x *syntax.Expr, name string, places []int) *syntax.Expr {
	if x.Op != syntax.Call {
		return x
	}
	first := 0 // the place of the function's first argument among those of x
	if x.Text != name {
		at := slices.IndexFunc(x.Args, func(a *syntax.Expr) bool { return a.Op == syntax.Name && a.Text == name })
		if at < 0 {
			return x
		}
		first = at + 1 - elementParameters // the arguments after the name are for later parameters
	}
	y := *x
	y.Args = slices.Clone(x.Args)
	for _, place := range slices.Backward(places) {
		y.Args = slices.Delete(y.Args, first+place, first+place+1)
	}
	return &y
}
