package frontend

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"strings"
	"sync"

	"github.com/vkc-go/vkc/ir"
)

// Error is a mistake in the construction of a graph, with its position. Build returns it.
type Error struct {
	Op    string    // the op, or the Builder method if there is no op
	Types []ir.Type // of the operands
	File  string    // of the program that called this package; empty if unknown
	Line  int
	Err   error // the reason
}

// Error formats position, op, operands and reason, such as
//
//	mlp/main.go:12: matmul(f32[6,8], f32[4,16]): input "x" is [6,8] and …
func (e *Error) Error() string {
	types := make([]string, len(e.Types))
	for i, t := range e.Types {
		types[i] = t.String()
	}
	s := fmt.Sprintf("%s(%s): %v", e.Op, strings.Join(types, ", "), e.Err)
	if pos := shortPos(e.File, e.Line); pos != "" {
		s = pos + ": " + s
	}
	return s
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// fail panics with an *Error, which Build recovers and returns.
func fail(op string, err error, args ...Tensor) {
	e := &Error{Op: op, Err: err}
	for _, t := range args {
		if t.node != nil {
			e.Types = append(e.Types, t.node.Type())
		}
	}
	e.File, e.Line = caller()
	panic(e)
}

// shortPos formats a position as dir/file.go:line. Without the rest of the path, graphs that record positions are equal
// on every machine.
func shortPos(file string, line int) string {
	if file == "" {
		return ""
	}
	dir, base := path.Split(file)
	return fmt.Sprintf("%s:%d", path.Join(path.Base(dir), base), line)
}

// packagePath is the import path of this package, and the prefix of its subpackages' paths.
var packagePath = reflect.TypeFor[Builder]().PkgPath()

// caller returns the position in the user's program of the current call into this package, or into a subpackage that
// builds on it.
func caller() (file string, line int) {
	var pcs [8]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		if n == 0 {
			return "", 0
		}
		for _, pc := range pcs[:n] {
			if p := placeOf(pc); !p.ours {
				return p.file, p.line
			}
		}
	}
}

// place is the position of a call.
type place struct {
	file string
	line int
	ours bool // the call is in this package or a subpackage
}

// places keeps the results of placeOf by pc, because finding a place takes longer than adding a node. It has at most an
// entry for each call in the program.
var places struct {
	sync.RWMutex
	of map[uintptr]place
}

// placeOf returns the position of the call that returns to pc, which is one of runtime.Callers.
func placeOf(pc uintptr) place {
	places.RLock()
	p, ok := places.of[pc]
	places.RUnlock()
	if ok {
		return p
	}
	frames := runtime.CallersFrames([]uintptr{pc})
	for more := true; more; { // the compiler may have inlined calls, so pc may have several frames
		var f runtime.Frame
		f, more = frames.Next()
		p = place{f.File, f.Line, isOurs(f.Function)}
		if !p.ours {
			break
		}
	}
	places.Lock()
	defer places.Unlock()
	if places.of == nil {
		places.of = map[uintptr]place{}
	}
	places.of[pc] = p
	return p
}

// isOurs reports whether a function belongs to this package or a subpackage. function is its full name, such as
// "github.com/vkc-go/vkc/frontend.(*Builder).add". Functions of packages with a name ending in _test do not belong.
func isOurs(function string) bool {
	rest, ok := strings.CutPrefix(function, packagePath)
	if !ok || rest == "" {
		return false
	}
	pkg, _, _ := strings.Cut(rest[strings.LastIndex(rest, "/")+1:], ".") // the last part of the package's path
	return (rest[0] == '.' || rest[0] == '/') && !strings.HasSuffix(pkg, "_test")
}
