package lint

import (
	"go/ast"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

const bailouts = module + "/internal/bailout"

// Caught finds bailouts that leave a package or a goroutine: an exported function, a goroutine or the initializer of a
// package variable may bail out only if a function in between defers bailout.Caught. A bailout that nothing catches
// ends the process.
//
// A function literal counts as called by the function that contains it. If the literal is an argument of a function of
// the same package, it counts only if that function calls it without a deferred Caught. Calls through interfaces, and
// through fields of this package's structs, are not followed.
var Caught = &analysis.Analyzer{
	Name: "vkccaught",
	Doc:  "check that bailouts are caught before they leave their package or goroutine",
	Run:  runCaught,
}

// unit is a function or function literal.
type unit struct {
	node   ast.Node
	name   string
	leaks  bool // whether a bailout may leave it
	caught bool // whether it defers bailout.Caught
	calls  []types.Object
	inside []*unit                // literals that it calls
	given  map[*unit]types.Object // literals that are arguments of functions of this package, with the parameter
	params map[types.Object]bool  // parameters of functions that it calls or passes on
}

type catcher struct {
	pass  *analysis.Pass
	units []*unit
	funcs map[types.Object]*unit
}

// runCaught reports bailouts that may leave the package or a goroutine. It first finds out which functions a bailout
// may leave: those that bail out, then those that call these, and so on until nothing changes.
func runCaught(pass *analysis.Pass) (any, error) {
	// The package does not bail out.
	if !slices.ContainsFunc(pass.Pkg.Imports(), func(p *types.Package) bool { return p.Path() == bailouts }) {
		return nil, nil
	}
	c := &catcher{pass: pass, funcs: map[types.Object]*unit{}}
	var exported, variables []*unit
	for _, file := range sources(pass) {
		for _, decl := range file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
				u := c.unit(fn, fn.Body, fn.Name.Name)
				c.funcs[pass.TypesInfo.Defs[fn.Name]] = u
				if fn.Name.IsExported() {
					exported = append(exported, u)
				}
			} else if !ok {
				u := c.unit(decl, decl, "a variable of the package")
				variables = append(variables, u)
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, u := range c.units {
			if !u.leaks && !u.caught && c.leaves(u) {
				u.leaks, changed = true, true
			}
		}
	}
	for _, u := range slices.Concat(exported, variables) {
		if u.leaks {
			pass.Reportf(u.node.Pos(), "%s lets a bailout out of the package: defer bailout.Caught", u.name)
		}
	}
	for _, file := range sources(pass) {
		for n := range ast.Preorder(file) {
			c.checkGoroutine(n)
		}
	}
	return nil, nil
}

// leaves reports whether a bailout may leave u, by what is known of the units that it calls so far.
func (c *catcher) leaves(u *unit) bool {
	for _, o := range u.calls {
		if _, ok := o.(*types.Func); ok && isOfBailout(o) && o.Name() != "Caught" {
			return true
		}
		if f := c.funcs[origin(o)]; f != nil && f.leaks {
			return true
		}
	}
	for literal, param := range u.given {
		if literal.leaks && c.passesOn(param) {
			return true
		}
	}
	return slices.ContainsFunc(u.inside, func(l *unit) bool { return l.leaks })
}

// isOfBailout reports whether package bailout declares o.
func isOfBailout(o types.Object) bool {
	return o != nil && o.Pkg() != nil && o.Pkg().Path() == bailouts
}

// passesOn reports whether a unit that catches nothing calls a parameter.
func (c *catcher) passesOn(param types.Object) bool {
	return slices.ContainsFunc(c.units, func(u *unit) bool { return u.params[param] && !u.caught })
}

// unit makes the unit of a function and the units of the function literals in it, adds them to c.units, and returns the
// function's.
func (c *catcher) unit(node, body ast.Node, name string) *unit {
	u := &unit{node: node, name: name, given: map[*unit]types.Object{}, params: map[types.Object]bool{}}
	c.units = append(c.units, u)
	params := map[ast.Node]types.Object{} // the parameter of this package's function that gets an argument
	elsewhere := map[ast.Node]bool{}      // run later: calls of go statements, and values of this package's fields
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.DeferStmt:
			if o := c.callee(n.Call.Fun); isOfBailout(o) && o.Name() == "Caught" {
				u.caught = true
			}
		case *ast.GoStmt:
			elsewhere[n.Call] = true
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				field, ok := c.pass.TypesInfo.Uses[key].(*types.Var)
				elsewhere[n.Value] = ok && field.IsField() && field.Pkg() == c.pass.Pkg
			}
		case *ast.CallExpr:
			o := c.callee(n.Fun)
			if !elsewhere[n] {
				u.calls = append(u.calls, o)
			}
			if fn, ok := o.(*types.Func); ok && fn.Pkg() == c.pass.Pkg {
				sig := fn.Origin().Signature()
				for i, a := range n.Args {
					if at := min(i, sig.Params().Len()-1); at >= 0 { // the last parameter gets all further arguments
						params[ast.Unparen(a)] = sig.Params().At(at)
					}
				}
			}
		case *ast.Ident:
			if v, ok := c.pass.TypesInfo.Uses[n].(*types.Var); ok {
				if _, ok := v.Type().Underlying().(*types.Signature); ok {
					u.params[v] = true
				}
			}
		case *ast.FuncLit:
			l := c.unit(n, n.Body, "a function")
			if param := params[n]; param != nil {
				u.given[l] = param
			} else if !elsewhere[n] && !c.inGoroutine(n) {
				u.inside = append(u.inside, l)
			}
			return false
		}
		return true
	})
	return u
}

// callee returns the function or variable that the function expression of a call names, or nil.
func (c *catcher) callee(fun ast.Expr) types.Object {
	fun = ast.Unparen(fun)
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	switch f := fun.(type) {
	case *ast.Ident:
		return c.pass.TypesInfo.Uses[f]
	case *ast.SelectorExpr:
		return c.pass.TypesInfo.Uses[f.Sel]
	}
	return nil
}

// goroutine returns the function that n starts as a goroutine, or nil. n is a go statement, or a call of a method named
// Go, such as sync.WaitGroup's.
func goroutine(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.GoStmt:
		return ast.Unparen(n.Call.Fun)
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" && len(n.Args) == 1 {
			return ast.Unparen(n.Args[0])
		}
	}
	return nil
}

// inGoroutine reports whether a literal is started as a goroutine.
func (c *catcher) inGoroutine(l *ast.FuncLit) bool {
	for _, file := range c.pass.Files {
		if l.Pos() < file.FileStart || l.Pos() > file.FileEnd {
			continue
		}
		for n := range ast.Preorder(file) {
			if goroutine(n) == ast.Expr(l) {
				return true
			}
		}
	}
	return false
}

// checkGoroutine reports n if it starts a function as a goroutine and a bailout may leave that function.
func (c *catcher) checkGoroutine(n ast.Node) {
	if fun := goroutine(n); fun != nil {
		if u := c.unitOf(fun); u != nil && u.leaks {
			c.pass.Reportf(n.Pos(), "this goroutine lets a bailout out: defer bailout.Caught")
		}
	}
}

// unitOf returns the unit of a function literal, or of a named function of this package. For others it returns nil.
func (c *catcher) unitOf(fun ast.Expr) *unit {
	if i := slices.IndexFunc(c.units, func(u *unit) bool { return u.node == ast.Node(fun) }); i >= 0 {
		return c.units[i]
	}
	if o := c.callee(fun); o != nil {
		return c.funcs[origin(o)]
	}
	return nil
}
