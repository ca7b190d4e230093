package reply

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vkc-go/vkc/grammar"
)

// syntax is how one call, or a list of calls, is written.
type syntax interface {
	// read reads the calls that s begins with: their parts, and their length in bytes.
	read(s string, t Tools) (parts []Part, n int, st state)
	// head reads the text of one call up to its arguments, which begin at byte `at` and come before tail. Only text in
	// the syntax's grammar has a head.
	head(s string, t Tools) (name string, at int, tail string, ok bool)
	// calls returns the grammar's description of the calls, or nil if a grammar cannot describe them.
	calls(t Tools) []grammar.Function
}

// nameLength returns the number of leading characters of s that a tool's name may have.
func nameLength(s string) int {
	i := strings.IndexFunc(s, func(c rune) bool {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		return !(letter || '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.')
	})
	if i < 0 {
		return len(s)
	}
	return i
}

// objectSyntax is {"name": NAME, key: ARGUMENTS}, or a list of such objects.
type objectSyntax struct{ key, before, after string }

// read reads a JSON object, or a list of objects, at the beginning of s. Objects that call a tool become calls, and the
// others content. n is the number of bytes read. st is not if no object is a call, and partial if s is not complete.
func (o objectSyntax) read(s string, t Tools) (parts []Part, n int, st state) {
	if st := plausible(s); st == not || len(strings.TrimSpace(s)) == 0 {
		return nil, 0, st
	}
	space := len(s) - len(strings.TrimLeft(s, " \t\r\n"))
	n, st = span(s[space:])
	if st != whole {
		return nil, 0, st
	}
	n += space
	value := repair(s[space:n])
	list := []json.RawMessage{value}
	if s[space] == '[' { // a list of objects
		if json.Unmarshal(value, &list) != nil || len(list) == 0 {
			return nil, 0, not
		}
	}
	found := false
	for _, one := range list {
		call := t.callOf(one)
		if call != nil {
			found = true
		} else {
			call = []Part{{Content, string(one)}}
		}
		parts = append(parts, call...)
	}
	if !found {
		return nil, 0, not
	}
	return parts, n, whole
}

func (o objectSyntax) function(t Tool) grammar.Function {
	before := fmt.Sprintf(`%s{"name": "%s", "%s": `, o.before, t.Name, o.key)
	return grammar.Function{Name: t.Name, Parameters: t.Parameters, Strict: t.Strict, Before: before,
		After: "}" + o.after}
}

// calls returns the syntax of a call of each tool.
func (o objectSyntax) calls(t Tools) (list []grammar.Function) {
	list = []grammar.Function{}
	for _, one := range t {
		list = append(list, o.function(one))
	}
	return list
}

func (o objectSyntax) head(s string, t Tools) (name string, at int, tail string, ok bool) {
	return headOf(s, o.calls(t))
}

// headOf finds the function that s calls: s begins with the text that stands before the function's arguments.
func headOf(s string, list []grammar.Function) (name string, at int, tail string, ok bool) {
	trimmed := strings.TrimLeft(s, " \t\r\n")
	for _, f := range list {
		before := strings.TrimLeft(f.Before, " \t\r\n")
		if strings.HasPrefix(trimmed, before+"{") {
			return f.Name, len(s) - len(trimmed) + len(before), f.After, true
		}
	}
	return "", 0, "", false
}

// namedSyntax is the form PREFIX NAME SEP ARGUMENTS SUFFIX. When read reads a call, the prefix may be any of prefixes,
// and a short text may stand between NAME and SEP, such as the id of a call. When a grammar restricts a call, the
// prefix is prefixes[0], and the text between NAME and SEP is the field between.
type namedSyntax struct {
	prefixes             []string
	between, sep, suffix string
}

// maxBetween is the maximum number of bytes between a tool's name and its arguments in an answer.
const maxBetween = 128

// read reads a call at the beginning of s: one of the prefixes, a tool's name, y.sep and the arguments as JSON. n is
// the number of bytes read. st is partial if s may be the beginning of a call.
func (y namedSyntax) read(s string, t Tools) (parts []Part, n int, st state) {
	rest := s
	for _, p := range y.prefixes {
		if p != "" && strings.HasPrefix(s, p) {
			rest = s[len(p):]
			break
		}
		if len(s) < len(p) && strings.HasPrefix(p, s) {
			st = partial
		}
	}
	k := nameLength(rest)
	name := rest[:k]
	switch {
	case k == len(rest) && t.begins(name):
		return nil, 0, partial
	case !t.has(name):
		return nil, 0, st
	}
	before, given, found := strings.Cut(rest[k:], y.sep)
	// Only a little text may come between the name and the separator.
	if len(before) > maxBetween || strings.ContainsAny(before, "{}") {
		return nil, 0, not
	}
	given = strings.TrimLeft(given, " \t\r\n")
	if !found || given == "" {
		return nil, 0, partial
	}
	size, st := span(given)
	if st != whole {
		return nil, 0, st
	}
	arguments, ok := object(given[:size])
	if !ok {
		return nil, 0, not
	}
	return []Part{{CallStart, name}, {Arguments, arguments}}, len(s) - len(given) + size, whole
}

// calls returns one function per tool: its call is the first prefix, the name, y.between, y.sep, the arguments and
// y.suffix.
func (y namedSyntax) calls(t Tools) (list []grammar.Function) {
	list = []grammar.Function{}
	for _, one := range t {
		list = append(list, grammar.Function{Name: one.Name, Parameters: one.Parameters, Strict: one.Strict,
			Before: y.prefixes[0] + one.Name + y.between + y.sep, After: y.suffix})
	}
	return list
}

func (y namedSyntax) head(s string, t Tools) (name string, at int, tail string, ok bool) {
	return headOf(s, y.calls(t))
}

// paramsSyntax encloses the name of a tool and each argument in marks. A call is
//
//	begin NAME nameEnd  param KEY paramEnd value TEXT valueEnd  param ...  end
//
// such as <function=NAME><parameter=KEY>TEXT</parameter></function>. Strings have no quotes.
type paramsSyntax struct {
	begin, nameEnd, param, paramEnd, value, valueEnd, end string
}

// read reads a call at the beginning of s: a tool's name and its arguments, each between marks. It returns the
// arguments as a JSON object. n is the number of bytes read.
func (p paramsSyntax) read(s string, t Tools) (parts []Part, n int, st state) {
	r := marked(s)
	if st := r.take(p.begin); st != whole {
		return nil, 0, st
	}
	name := string(r[:nameLength(string(r))])
	switch {
	case len(name) == len(r) && t.begins(name):
		return nil, 0, partial
	case !t.has(name):
		return nil, 0, not
	}
	r = r[len(name):]
	if st := r.take(p.nameEnd); st != whole {
		return nil, 0, st
	}
	var fields []string
	for {
		if p.end != "" {
			if st := r.take(p.end); st == whole {
				break
			} else if st == partial {
				return nil, 0, partial
			}
		}
		key, text, st := p.argument(&r)
		if st != whole {
			return nil, 0, st
		}
		quoted, err := json.Marshal(key)
		if err != nil {
			return nil, 0, not
		}
		fields = append(fields, fmt.Sprintf("%s:%s", quoted, t.value(name, key, text)))
	}
	arguments := "{" + strings.Join(fields, ",") + "}"
	return []Part{{CallStart, name}, {Arguments, arguments}}, len(s) - len(r), whole
}

// argument reads the name and the text of one argument. If calls have no end mark (p.end), only an argument can come
// here, so its mark may be missing.
func (p paramsSyntax) argument(r *marked) (key, text string, st state) {
	if st := r.take(p.param); st == partial || st == not && p.end != "" {
		return "", "", st
	}
	key, found := r.until(p.paramEnd)
	if !found {
		return "", "", partial
	}
	if st := r.take(p.value); st != whole {
		return "", "", st
	}
	if text, found = r.until(p.valueEnd); !found {
		return "", "", partial
	}
	// The form has a line break before and after the text.
	return strings.TrimSpace(key), strings.TrimSuffix(strings.TrimPrefix(text, "\n"), "\n"), whole
}

// marked is a text with marks that is read from its beginning. Its methods drop the part that they have read.
type marked string

// take drops white space and a mark, and returns whole. If the mark is not there, it changes nothing, and returns
// partial if the text may be its beginning, and else not.
func (r *marked) take(mark string) state {
	if mark == "" {
		return whole
	}
	trimmed := strings.TrimLeft(string(*r), " \t\r\n")
	switch {
	case strings.HasPrefix(trimmed, mark):
		*r = marked(trimmed[len(mark):])
		return whole
	case strings.HasPrefix(mark, trimmed):
		return partial
	}
	return not
}

// until returns the text before a mark, and drops both. If the mark is not there, it drops nothing.
func (r *marked) until(mark string) (before string, found bool) {
	before, after, found := strings.Cut(string(*r), mark)
	if found {
		*r = marked(after)
	}
	return before, found
}

// calls returns one function per tool, with the marks around its arguments.
func (p paramsSyntax) calls(t Tools) (list []grammar.Function) {
	marks := &grammar.Marks{Param: p.param, ParamEnd: p.paramEnd + p.value, ValueEnd: p.valueEnd}
	list = []grammar.Function{}
	for _, one := range t {
		list = append(list, grammar.Function{Name: one.Name, Parameters: one.Parameters, Strict: one.Strict,
			Before: p.begin + one.Name + p.nameEnd + "\n", Marks: marks, After: p.end})
	}
	return list
}

func (paramsSyntax) head(string, Tools) (name string, at int, tail string, ok bool) {
	return "", 0, "", false
}

// pythonSyntax reads calls that a model writes as Python calls: NAME(key=value, ...), or several in brackets, as
// Llama 3.2 writes them. listed means that the brackets are required.
type pythonSyntax struct{ listed bool }

// read reads one Python call or a list of calls, and returns the keyword arguments of each as a JSON object.
func (p pythonSyntax) read(s string, t Tools) (parts []Part, n int, st state) {
	l := &literals{s: s, assign: "=", quotes: []string{`"""`, `'''`, `"`, `'`}}
	l.space()
	bracket := l.take("[")
	if p.listed && !bracket {
		return nil, 0, l.fails("[")
	}
	for {
		l.space()
		rest := l.rest()
		name := rest[:nameLength(rest)]
		l.at += len(name)
		known, method, _ := strings.Cut(name, ".") // Llama 3 calls tools that it was trained with by NAME.call
		if method != "" && !strings.HasPrefix("call", method) {
			return nil, 0, not
		}
		switch {
		case l.rest() == "" && t.begins(known):
			return nil, 0, partial
		case !t.has(known):
			return nil, 0, not
		}
		if !l.take("(") {
			return nil, 0, l.fails("(")
		}
		arguments, st := l.fields(")")
		if st != whole {
			return nil, 0, st
		}
		parts = append(parts, Part{CallStart, known}, Part{Arguments, arguments})
		if !bracket {
			return parts, l.at, whole
		}
		l.space()
		switch {
		case l.take("]"):
			return parts, l.at, whole
		case !l.take(","):
			return nil, 0, l.fails(",")
		}
	}
}

// calls returns one function per tool: a list with one Python call that has keyword arguments.
func (pythonSyntax) calls(t Tools) (list []grammar.Function) {
	list = []grammar.Function{}
	for _, one := range t {
		list = append(list, grammar.Function{Name: one.Name, Parameters: one.Parameters, Strict: one.Strict,
			Before: "[" + one.Name + "(", Keywords: true, After: ")]"})
	}
	return list
}

func (pythonSyntax) head(string, Tools) (name string, at int, tail string, ok bool) {
	return "", 0, "", false
}

// gemmaSyntax is call:NAME{key:value,...} with strings between <escape> marks.
type gemmaSyntax struct{}

// read reads one call at the beginning of s, such as call:NAME{key:value}, and returns its fields as a JSON object. n
// is the number of bytes read.
func (gemmaSyntax) read(s string, t Tools) (parts []Part, n int, st state) {
	l := &literals{s: s, assign: ":", quotes: []string{"<escape>", `<|"|>`, `"`}}
	l.space()
	if !l.take("call:") {
		return nil, 0, l.fails("call:")
	}
	name := l.rest()[:nameLength(l.rest())]
	l.at += len(name)
	switch {
	case l.rest() == "" && t.begins(name):
		return nil, 0, partial
	case !t.has(name):
		return nil, 0, not
	case !l.take("{"):
		return nil, 0, l.fails("{")
	}
	arguments, st := l.fields("}")
	if st != whole {
		return nil, 0, st
	}
	return []Part{{CallStart, name}, {Arguments, arguments}}, l.at, whole
}

func (gemmaSyntax) calls(Tools) []grammar.Function { return nil }

func (gemmaSyntax) head(string, Tools) (name string, at int, tail string, ok bool) {
	return "", 0, "", false
}
