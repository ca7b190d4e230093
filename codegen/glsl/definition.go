package glsl

import (
	"slices"
	"strings"
)

// definition is what a text defines before main, for what follows to use: a function, a macro or a constant.
type definition struct {
	note string // comments, in lines of their own
	// before is what stands in front of the name: the type that a function returns, "#define", or "const" and a type.
	before string
	name   string
	params []string // of a function, with their types; nil of what is none
	body   string   // of a function, from its first line to the brace that ends it; else all that follows the name
}

// newFunction is a function of this head, such as "float half(float x)", and these lines.
func newFunction(head, lines string) definition {
	return parseDefinition(head + " {\n" + lines + "}\n")
}

// parseDefinition reads the text of a definition, which has its head in one line. A line before it may be empty.
func parseDefinition(text string) definition {
	d := definition{}
	text = strings.TrimPrefix(text, "\n")
	for strings.HasPrefix(text, "//") {
		line, rest, _ := strings.Cut(text, "\n")
		d.note, text = d.note+line+"\n", rest
	}
	words := 1
	if strings.HasPrefix(text, "const ") {
		words = 2
	}
	for range words {
		word, rest, _ := strings.Cut(text, " ")
		d.before, text = d.before+word+" ", rest
	}
	d.before = strings.TrimSuffix(d.before, " ")
	end := 0
	for end < len(text) && isNameByte(text[end]) {
		end++
	}
	d.name, d.body = text[:end], text[end:]
	if head, body, ok := strings.Cut(d.body, ") {\n"); ok && d.before != "#define" {
		d.params, d.body = []string{}, body
		if head = strings.TrimPrefix(head, "("); head != "" {
			d.params = strings.Split(head, ", ")
		}
	}
	return d
}

// isFunction reports whether it is no macro and no constant.
func (d definition) isFunction() bool { return d.params != nil }

// symbol is the name.
func (d definition) symbol() string { return d.name }

// signature is what no other definition of a text may have: of a function its name and the types of its parameters, by
// which GLSL tells functions of one name apart, and else the name.
func (d definition) signature() string {
	if !d.isFunction() {
		return d.name
	}
	var types []string
	for _, p := range d.params {
		types = append(types, parameterType(p))
	}
	return d.name + "(" + strings.Join(types, ", ") + ")"
}

// head is the line in which a function begins, but for the brace.
func (d definition) head() string {
	return d.before + " " + d.name + "(" + strings.Join(d.params, ", ") + ")"
}

// String is the text.
func (d definition) String() string {
	if !d.isFunction() {
		return d.note + d.before + " " + d.name + d.body
	}
	return d.note + d.head() + " {\n" + d.body
}

// renamed is the definition with other names in it.
func (d definition) renamed(names map[string]string) definition {
	d.name, d.body = renamed(d.name, names), renamed(d.body, names)
	params := d.params
	if d.isFunction() {
		d.params = []string{}
	}
	for _, p := range params {
		d.params = append(d.params, renamed(p, names))
	}
	return d
}

// parameter is the name of a parameter.
func parameter(p string) string {
	name, _, _ := strings.Cut(p[strings.LastIndexByte(p, ' ')+1:], "[") // of an array
	return name
}

// parameterType is the type of a parameter, which may have no name.
func parameterType(p string) string {
	_, extents, isArray := strings.Cut(p, "[")
	words := strings.Fields(p)
	for len(words) > 1 && slices.Contains([]string{"const", "in", "out", "inout"}, words[0]) {
		words = words[1:]
	}
	if isArray {
		return words[0] + "[" + extents
	}
	return words[0]
}

// sharedArray is a declaration of shared memory.
type sharedArray struct {
	typ, name string
	size      string // with its brackets: "[32][4]"
}

// symbol is the name.
func (s sharedArray) symbol() string { return s.name }

// signature is the name, too.
func (s sharedArray) signature() string { return s.name }

// String is the declaration.
func (s sharedArray) String() string { return "shared " + s.typ + " " + s.name + s.size + ";" }
