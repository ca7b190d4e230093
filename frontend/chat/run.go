package chat

import "fmt"

// failure is the reason why a template cannot be parsed or rendered. This package panics with it; Parse and Render
// recover it and return an error.
type failure struct{ msg string }

// fail ends the parsing or rendering of a template with an error of that text.
func fail(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }

// Limits of a run. A template that exceeds one is hostile, or does not end.
const (
	maxSteps  = 20_000_000 // expressions evaluated and characters written
	maxOutput = 16 << 20   // characters
	maxRange  = 100_000    // as in Jinja's sandbox
	maxItems  = 1_000_000  // of a list
)

// run is the state of one rendering.
type run struct {
	steps, depth int // counted against maxSteps and maxDepth
	line         int // of the statement being executed, for errors
	out          str // printed so far
	now          func(format string) string
}

// step counts n+1 steps, n for the size of the data and one for the operation, and fails at the limit.
func (r *run) step(n int) {
	r.steps += n + 1
	if r.steps > maxSteps {
		fail("the template takes more than %d steps", maxSteps)
	}
}

// beginLevel counts a level of nested calls or values, and fails at the limit. endLevel ends the level.
func (r *run) beginLevel() {
	r.depth++
	if r.depth > maxDepth {
		fail("calls or values nest more than %d deep", maxDepth)
	}
}

func (r *run) endLevel() { r.depth-- }

// print appends s to the output.
func (r *run) print(s str) {
	r.step(len(s))
	if len(r.out)+len(s) > maxOutput {
		fail("the text has more than %d characters", maxOutput)
	}
	r.out = append(r.out, s...)
}

// capture calls f and returns what it prints, instead of adding it to the output.
func (r *run) capture(f func()) str {
	r.beginLevel()
	defer r.endLevel()
	before := r.out
	r.out = nil
	f()
	got := r.out
	r.out = before
	return got
}

// scope holds the variables of a block, and the enclosing scope.
type scope struct {
	vars  map[string]value
	outer *scope
}

func (s *scope) inner() *scope { return &scope{outer: s} }

// set assigns a variable of this scope, not of the scopes around it.
func (s *scope) set(name string, v value) {
	if s.vars == nil {
		s.vars = map[string]value{}
	}
	s.vars[name] = v
}

// get returns the value of a variable, of an enclosing scope's if necessary, or a function, or undefined.
func (s *scope) get(name string) value {
	for ; s != nil; s = s.outer {
		if v, ok := s.vars[name]; ok {
			return v
		}
	}
	if f, ok := functions[name]; ok {
		return f
	}
	return undefined{name}
}

// bind assigns v to one name or, with unpack, its items to several names.
func (s *scope) bind(r *run, names []string, unpack bool, v value) {
	if !unpack {
		s.set(names[0], v)
		return
	}
	items := iterate(r, v)
	if len(items) != len(names) {
		fail("%d values for %d names", len(items), len(names))
	}
	for i, n := range names {
		s.set(n, items[i])
	}
}
