package emit

import (
	"cmp"
	"fmt"
	"regexp"

	"github.com/vkc-go/vkc/codegen/glsl/expr"
	"github.com/vkc-go/vkc/codegen/glsl/syntax"
	"github.com/vkc-go/vkc/codegen/kernel"
)

// Code is the function that is being written, as a tree of statements. It knows which names and values are visible at
// the end of the tree, where the next statement goes.
type Code struct {
	Root    *scope          // the body of main, or of the function being defined
	Scope   *scope          // the innermost open scope
	globals map[string]bool // names that are visible in all functions
}

// scope is a block of a function, with the names and values known in it. If head is nil, it has no braces: it is a part
// of the enclosing block, and binds some axes there.
type scope struct {
	parent *scope
	head   syntax.Stmt // the loop or branch that the block belongs to
	isElse bool        // the block is the branch's else block
	body   []syntax.Stmt
	Names  map[string]bool

	Axes    map[int]expr.Expr          // the coordinates along the axes that the scope binds
	run     Run                        // the neighbours that the block's loop computes one by one
	later   map[int]string             // names for coordinates that become variables at their first use, by axis
	accs    map[int]expr.Expr          // results of phases or matmuls, by number
	Values  map[*kernel.Expr]expr.Expr // values that are computed already
	indices map[string]expr.Expr       // expressions of indices and factors, by their canonical text
	vectors map[*kernel.Expr]expr.Expr // vectors with the values of a load for every lane

	// guard says that the block may not run. Values that only this block needs are computed inside it.
	guard bool
}

func newScope(parent *scope, head syntax.Stmt) *scope {
	return &scope{parent: parent, head: head, Names: map[string]bool{}, Axes: map[int]expr.Expr{},
		later: map[int]string{}, accs: map[int]expr.Expr{}, Values: map[*kernel.Expr]expr.Expr{},
		indices: map[string]expr.Expr{}, vectors: map[*kernel.Expr]expr.Expr{}}
}

// block returns the innermost scope with braces that contains s, or s itself.
func (s *scope) block() *scope {
	for s.head == nil && s.parent != nil {
		s = s.parent
	}
	return s
}

// Write appends statements to the scope.
func (s *scope) Write(list ...syntax.Stmt) { s.body = append(s.body, list...) }

// Blank writes an empty line.
func (c *Code) Blank() { c.Scope.Write(&syntax.Blank{}) }

// Comment writes a comment line, after a blank line unless it is the first line of its block.
func (c *Code) Comment(format string, args ...any) {
	s := c.Scope
	hasBraces := s.head != nil || s.parent == nil // a scope without braces is part of the block around it
	if len(s.body) > 0 || !hasBraces {
		c.Blank()
	}
	c.Scope.Write(&syntax.Comment{Text: fmt.Sprintf("// "+format, args...)})
}

// Open begins the body of a loop or branch.
func (c *Code) Open(head syntax.Stmt) { c.Scope = newScope(c.Scope, head) }

// OpenElse begins the else block of the branch that was closed last.
func (c *Code) OpenElse() {
	last := len(c.Scope.body) - 1
	head := c.Scope.body[last]
	c.Scope.body = c.Scope.body[:last]
	c.Open(head)
	c.Scope.isElse = true
}

// OpenScope begins a scope without braces. Axes can be bound in it for a few statements.
func (c *Code) OpenScope() { c.Scope = newScope(c.Scope, nil) }

// Close ends the innermost scope.
func (c *Code) Close() {
	s := c.Scope
	c.Scope = s.parent
	switch {
	case s.head == nil:
		c.Scope.Write(s.body...)
	case s.isElse:
		branch := *s.head.(*syntax.If)
		branch.Else = syntax.Prune(s.body)
		c.Scope.Write(&branch)
	default:
		c.Scope.Write(syntax.WithBody(s.head, syntax.Prune(s.body)))
	}
}

// CloseTo ends scopes until s is the innermost one.
func (c *Code) CloseTo(s *scope) {
	for c.Scope != s {
		c.Close()
	}
}

// BindAxis binds the coordinate along an axis in the open scope. Call it before the scope evaluates anything.
func (c *Code) BindAxis(axis int, t expr.Expr) { c.Scope.Axes[axis] = t }

// BindAxisLater binds an axis to the coordinate t, which becomes a variable with the given name when Axis first returns
// it. A number does not become a variable.
func (c *Code) BindAxisLater(axis int, name string, t expr.Expr) {
	c.BindAxis(axis, t)
	if _, number := expr.LiteralOf(t); !number {
		c.Scope.later[axis] = name
	}
}

// BindAcc binds the result of phase or matmul i to a variable, in the open scope.
func (c *Code) BindAcc(i int, t expr.Expr) { c.Scope.accs[i] = t }

// BindValue tells the open scope that t is the value of v, which is computed already.
func (c *Code) BindValue(v *kernel.Expr, t expr.Expr) { c.Scope.Values[v] = t }

// lookUp returns the entry for a key in the innermost open scope that has one. entries selects the scope's map.
func lookUp[K comparable](c *Code, key K, entries func(*scope) map[K]expr.Expr) (t expr.Expr, ok bool) {
	for s := c.Scope; s != nil && !ok; s = s.parent {
		t, ok = entries(s)[key]
	}
	return t, ok
}

// KnownValue returns the expression of a value that an open scope has computed already.
func (c *Code) KnownValue(v *kernel.Expr) (expr.Expr, bool) {
	return lookUp(c, v, func(s *scope) map[*kernel.Expr]expr.Expr { return s.Values })
}

// vector returns the vector variable with the values of a load for every lane, or nil.
func (c *Code) vector(v *kernel.Expr) expr.Expr {
	t, _ := lookUp(c, v, func(s *scope) map[*kernel.Expr]expr.Expr { return s.vectors })
	return t
}

// knownIndex returns the expression of an index that an open scope has for a key.
func (c *Code) knownIndex(key string) (expr.Expr, bool) {
	return lookUp(c, key, func(s *scope) map[string]expr.Expr { return s.indices })
}

// declare introduces a variable in scope s.
func (c *Code) declare(s *scope, typ, base string, value expr.Expr) expr.Expr {
	name := c.Fresh(s, base)
	s.Write(&syntax.Declare{Type: typ, Vars: []syntax.Var{{Name: name, Init: value}}})
	return syntax.Ident(name)
}

// declareIndex declares a variable for an index in scope s.
func (c *Code) declareIndex(s *scope, name string, t expr.Expr) expr.Expr {
	if expr.IsWide(t) {
		return expr.OfType(expr.Wide, c.declare(s, expr.Wide, name, t))
	}
	return c.declare(s, "uint", name, t)
}

// Variable declares a variable in the open scope.
func (c *Code) Variable(typ, base string, value expr.Expr) expr.Expr {
	return c.declare(c.Scope, typ, base, value)
}

// Choose returns value if cond holds, and otherwise the constant `otherwise`. It puts value into a variable, so
// value is always computed and must be safe. Without the variable, GLSL compilers generate a branch, and spirv-opt
// keeps branches around loads and multiplications.
func (c *Code) Choose(typ, base string, cond, value, otherwise expr.Expr) expr.Expr {
	if !expr.IsNumber(value) {
		value = c.Variable(typ, base, value)
	}
	return expr.Choose(cond, value, otherwise)
}

// outermost returns the outermost scope that can compute a value, so that loops do not compute it again. usesAxis and
// usesAcc report on which axes, and on which phases or matmuls, the value depends. The scope is the innermost one that
// binds one of these, or that is a guard.
func (c *Code) outermost(usesAxis, usesAcc func(int) bool) *scope {
	for s := c.Scope; ; s = s.parent {
		if s.parent == nil || s.guard {
			return s
		}
		for a := range s.Axes {
			if usesAxis(a) {
				return s
			}
		}
		for a := range s.accs {
			if usesAcc(a) {
				return s
			}
		}
	}
}

var firstWord = regexp.MustCompile(`^[A-Za-z_]\w*`)

// axisName is the name of an axis within other names: the first word of its coordinate, if that is a word.
func (c *Code) axisName(axis int) string {
	t := ""
	for s := c.Scope; s != nil && t == ""; s = s.parent {
		if t = s.later[axis]; t == "" {
			t = s.Axes[axis].String()
		}
	}
	return cmp.Or(firstWord.FindString(t), "value")
}
