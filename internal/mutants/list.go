// Mutants plants faults in the code, one at a time, and reports which of them the tests detect. It measures the tests,
// not the code. make mutants runs it. The faults are in faults.txt. The working tree is never changed: go test gets the
// mutated file through an overlay.
//
//	go run ./internal/mutants                  # all of them; an hour
//	go run ./internal/mutants -only 'ir/|loop' # faults with a matching name or file
package main

import (
	"fmt"
	"strings"
)

// fault is a change of one line that makes the program wrong.
type fault struct {
	name     string
	file     string   // path from the root of the module
	old, new string   // text that occurs once in the file, on one line, and its replacement
	packages []string // packages with tests that should detect the fault
	run      string   // a regular expression for -run; "" for all tests
}

// parse reads a list of faults. A fault begins with a line "=== NAME", followed by lines "KEY: VALUE". The keys are
// file, old (the code to replace), new, see (the packages with tests that must find the fault) and run (a pattern for
// -run). Lines that begin with # are comments.
func parse(text string) (list []fault, err error) {
	names := map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		name, head := strings.CutPrefix(line, "=== ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case head && names[name]:
			return nil, fmt.Errorf("line %d: there are two faults %q", i+1, name)
		case head:
			names[name] = true
			list = append(list, fault{name: name})
			continue
		case len(list) == 0:
			return nil, fmt.Errorf("line %d: %q stands before the first fault: begin one by a line === NAME", i+1, line)
		}
		f := &list[len(list)-1]
		field, known := map[string]*string{"file": &f.file, "old": &f.old, "new": &f.new, "run": &f.run}[key]
		switch {
		case key == "see":
			f.packages = strings.Fields(value)
		case !known:
			return nil, fmt.Errorf("line %d: %q is none of file, old, new, see, run", i+1, key)
		case *field != "":
			return nil, fmt.Errorf("line %d: fault %q has two lines %q", i+1, f.name, key)
		default:
			*field = value
		}
	}
	for _, f := range list {
		if f.file == "" || f.old == "" || f.old == f.new || len(f.packages) == 0 {
			return nil, fmt.Errorf("fault %q needs file, see, old, and a new that differs", f.name)
		}
	}
	return list, nil
}

// plant returns a file's text with the fault in it.
func (f fault) plant(text string) (string, error) {
	if n := strings.Count(text, f.old); n != 1 {
		return "", fmt.Errorf("fault %q: %s has the text %q %d times, and must have it once: write the fault again "+
			"in internal/mutants/faults.txt", f.name, f.file, f.old, n)
	}
	return strings.Replace(text, f.old, f.new, 1), nil
}
