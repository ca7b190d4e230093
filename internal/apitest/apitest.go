// Package apitest calls every exported function and method of a package with zero arguments: nil receivers, nil
// contexts, nil graphs, zero numbers. None may panic.
package apitest

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// A Package is the package under test, in the current directory.
type Package struct {
	// Allowed, if set, accepts values that a call may panic with.
	Allowed func(thrown any) bool
}

// Calls calls all methods of values, and all values that are functions, with zero arguments. A panic fails the test
// unless Allowed accepts it. A function that takes a context and returns an error must return one for a nil context.
// Calls skips nil errors, methods declared in tests, and methods of embedded types of other packages.
func (p Package) Calls(t *testing.T, values ...any) {
	t.Helper()
	methods, testing := p.methods(t)
	for _, value := range values {
		v := reflect.ValueOf(value)
		if v.Kind() == reflect.Func {
			p.call(t, v.Type().String(), v)
			continue
		}
		// A method of a nil error may panic.
		if _, is := value.(error); is && v.Kind() == reflect.Pointer && v.IsNil() {
			continue
		}
		own, known := methods[typeOf(value).Name()]
		for i := range v.NumMethod() {
			name := v.Type().Method(i).Name
			if known && !slices.Contains(own, name) || slices.Contains(testing, name) {
				continue
			}
			p.call(t, v.Type().String()+"."+name, v.Method(i))
		}
	}
}

// typeOf returns the type of a value, or of the value that it points to.
func typeOf(value any) reflect.Type {
	typ := reflect.TypeOf(value)
	if typ.Kind() == reflect.Pointer {
		return typ.Elem()
	}
	return typ
}

// call calls a function or method with zero arguments. The test fails if it panics, or if it takes a context first and
// returns no error for a nil one.
func (p Package) call(t *testing.T, name string, f reflect.Value) {
	t.Helper()
	args := make([]reflect.Value, f.Type().NumIn())
	for i := range args {
		args[i] = reflect.Zero(f.Type().In(i))
	}
	if f.Type().IsVariadic() {
		// Call would make a variadic argument of it: pass none instead.
		args = args[:len(args)-1]
	}
	defer func() {
		if thrown := recover(); thrown != nil && (p.Allowed == nil || !p.Allowed(thrown)) {
			t.Errorf("%s panics: %v\n%s", name, thrown, panicOrigin(debug.Stack()))
		}
	}()
	results := f.Call(args)
	// Close and Unwrap may return nil even so.
	if len(results) == 0 || strings.HasSuffix(name, ".Close") || strings.HasSuffix(name, ".Unwrap") {
		return
	}
	last := results[len(results)-1]
	wantsContext := len(args) > 0 && args[0].Type() == reflect.TypeFor[context.Context]()
	if wantsContext && last.Type() == reflect.TypeFor[error]() && last.IsNil() {
		t.Errorf("%s returns no error without a context", name)
	}
}

// panicOrigin returns the part of a stack between the panic and the tested call.
func panicOrigin(stack []byte) string {
	_, rest, _ := strings.Cut(string(stack), "panic(")
	lines := strings.Split(rest, "\n")
	return strings.Join(lines[min(2, len(lines)):min(8, len(lines))], "\n")
}

// Complete calls methods and functions with zero arguments, as Calls does, and a panic fails the test. The test also
// fails if an exported type of the package has exported methods, but none of the values has this type.
func (p Package) Complete(t *testing.T, values ...any) {
	t.Helper()
	methods, _ := p.methods(t)
	for typ := range methods {
		if !slices.ContainsFunc(values, func(v any) bool { return typeOf(v).Name() == typ }) {
			t.Errorf("type %s has exported methods, but the test passes no value of it: add a nil or zero value", typ)
		}
	}
	p.Calls(t, values...)
}

// methods lists the exported methods of the package's exported types, and the names of methods that its tests declare.
func (p Package) methods(t *testing.T) (methods map[string][]string, testing []string) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods = map[string][]string{}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() {
				continue
			}
			typ := typeName(f.Recv.List[0].Type)
			switch {
			case !ast.IsExported(typ):
			case strings.HasSuffix(name, "_test.go"):
				testing = append(testing, f.Name.Name)
			default:
				methods[typ] = append(methods[typ], f.Name.Name)
			}
		}
	}
	return methods, testing
}

// typeName returns the name of a receiver's type, without a pointer.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
