package spirv

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// CompileError says that a tool rejected a shader. Its fields describe the first error; Log has all messages.
type CompileError struct {
	Shader  string // Shader.Name
	Tool    string // "glslc", "glslangValidator", "spirv-opt" or "spirv-val"
	Line    int    // line in the source, from 1; 0 if the tool names none
	Message string
	Source  string // that line of the source; empty if Line is 0
	Log     string // every message about this shader, one per line

	stopped bool // the tool hit a limit, so the shader may be valid
}

// Error describes the first error with its source line, and counts the others.
func (e *CompileError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "shader %q: ", e.Shader)
	if e.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", e.Line)
	}
	fmt.Fprintf(&b, "%s (%s)", e.Message, e.Tool)
	if e.Source != "" {
		fmt.Fprintf(&b, "\n\t%d | %s", e.Line, strings.TrimSpace(e.Source))
	}
	// Log has one line per error, so it has as many line ends as there are further errors.
	if more := strings.Count(e.Log, "\n"); more > 0 {
		fmt.Fprintf(&b, "\n\tand %d more", more)
	}
	return b.String()
}

// diagnostic is one message of a compiler.
type diagnostic struct {
	file    string // base name; empty if the message names none
	line    int
	message string
}

// The formats of the compilers' error messages. Neither has a column.
//
//	glslc:            0003.comp:12: error: 'x' : undeclared identifier
//	                  0003.comp: error: Linking compute stage: Missing entry point
//	                  glslc: error: invalid value 'x' in '--target-env=x'
//	glslangValidator: ERROR: 0003.comp:12: 'x' : undeclared identifier
//	                  ERROR: Linking compute stage: Missing entry point
var (
	glslcError   = regexp.MustCompile(`^(?:(.+?):(?:(\d+):)? )?error: (.*)$`)
	glslangError = regexp.MustCompile(`^ERROR: (?:(\S+):(\d+): )?(.*)$`)
	errorCount   = regexp.MustCompile(`^\d+ compilation errors?\.`)
)

// parseDiagnostics returns the errors in a compiler's output. It leaves out warnings.
func parseDiagnostics(text string) []diagnostic {
	var found []diagnostic
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		m := glslcError.FindStringSubmatch(line)
		if m == nil {
			m = glslangError.FindStringSubmatch(line)
		}
		if m == nil || errorCount.MatchString(m[3]) {
			continue
		}
		n, err := strconv.Atoi(m[2])
		if err != nil {
			n = 0 // no line, or not a valid number
		}
		d := diagnostic{line: n, message: tidyMessage(m[3])}
		if m[1] != "" {
			d.file = filepath.Base(m[1])
		}
		found = append(found, d)
	}
	return found
}

// tidyMessage removes control characters. It also removes the empty subject (two quotes and a colon) that glslang puts
// before messages without an identifier.
func tidyMessage(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' ' // control characters could affect the terminal
		}
		return r
	}, strings.TrimPrefix(s, "'' :"))
	return strings.Join(strings.Fields(s), " ")
}

// newCompileError returns the error for a unit that the tool rejected with the messages in found, at least one.
func newCompileError(u *unit, tool string, found []diagnostic) *CompileError {
	first := found[0]
	e := &CompileError{Shader: u.shader.Name, Tool: tool, Line: first.line, Message: first.message}
	if lines := strings.Split(u.shader.Source, "\n"); first.line > 0 && first.line <= len(lines) {
		e.Source = strings.TrimRight(lines[first.line-1], "\r")
	}
	var log []string
	for _, d := range found {
		if d.line > 0 {
			log = append(log, fmt.Sprintf("line %d: %s", d.line, d.message))
		} else {
			log = append(log, d.message)
		}
	}
	e.Log = strings.Join(log, "\n")
	return e
}

// toolFailure returns the error for a tool that failed on a unit's shader without naming a line. The tool may have
// crashed or written invalid output; spirv-opt and spirv-val never know source lines.
func toolFailure(u *unit, tool string, message, log string) *CompileError {
	if log == "" {
		log = message
	}
	return &CompileError{Shader: u.shader.Name, Tool: tool, Message: message, Log: log}
}

// failureOf returns the error for a tool that failed on a unit's shader without diagnostics. The message is the first
// line of the tool's output, or else its exit status.
func failureOf(u *unit, tool string, e *exitError) *CompileError {
	message := e.state.Error()
	if e.stopped {
		failure := toolFailure(u, tool, message, e.output)
		failure.stopped = true
		return failure
	}
	if said := strings.TrimPrefix(firstLine(e.output), "error: "); said != "" {
		message = said
		if !strings.HasPrefix(e.state.Error(), "exit status") { // report a crash in addition to the message
			message = e.state.Error() + ": " + said
		}
	}
	return toolFailure(u, tool, message, e.output)
}
