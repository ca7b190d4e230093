package grammar

import (
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// formats are patterns of strings.
var formats = map[string]string{
	"date": date, "time": clock, "date-time": date + "T" + clock,
	"uuid": `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`,
}

// Dates and times are RFC 3339's, without leap days and leap seconds.
const (
	date = `[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|` +
		`02-(0[1-9]|1[0-9]|2[0-8]))`
	clock = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
)

func (s *schemas) string(o *object, where string) *expr {
	low, high := s.counts(o, where, "minLength", "maxLength")
	pattern, ok := o.values["pattern"].(string)
	if o.has("pattern") && !ok {
		return s.fail(where, "pattern: want a string")
	}
	if o.has("format") {
		name, _ := o.values["format"].(string)
		known, ok := formats[name]
		if !ok {
			return s.fail(where, "format %q is not supported: want date, time, date-time or uuid, or a pattern", name)
		}
		if o.has("pattern") {
			return s.fail(where, "format beside pattern is not supported: leave one out")
		}
		pattern = "^(" + known + ")$"
	}
	switch {
	case pattern == "" && low == 0 && high < 0:
		return s.anyString()
	case high >= 0 && low > high:
		return alt()
	case pattern == "":
		return seq(text(`"`), repeat(s.char(), low, high), text(`"`))
	case low > 0 || high >= 0:
		return s.fail(where, "minLength and maxLength beside a pattern or format are not supported: say the "+
			"length in it, as in ^[a-z]{1,8}$")
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return s.fail(where, "pattern: %v", err)
	}
	return seq(text(`"`), s.searched(re, where, false, false), text(`"`))
}

// searched is the strings in which a pattern is found, which begins or ends with them where it says so.
func (s *schemas) searched(re *syntax.Regexp, where string, begins, ends bool) *expr {
	switch re.Op {
	case syntax.OpCapture:
		return s.searched(re.Sub[0], where, begins, ends)
	case syntax.OpAlternate:
		e := alt()
		for _, x := range re.Sub {
			e.list = append(e.list, s.searched(x, where, begins, ends))
		}
		return e
	}
	list := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		list = re.Sub
	}
	for len(list) > 0 && list[0].Op == syntax.OpBeginText {
		begins, list = true, list[1:]
	}
	for len(list) > 0 && list[len(list)-1].Op == syntax.OpEndText {
		ends, list = true, list[:len(list)-1]
	}
	e := seq()
	if !begins {
		e.list = append(e.list, repeat(s.char(), 0, -1))
	}
	for _, x := range list {
		e.list = append(e.list, s.pattern(x, where))
	}
	if !ends {
		e.list = append(e.list, repeat(s.char(), 0, -1))
	}
	return e
}

// pattern is the texts of a regular expression, as a JSON string has them.
func (s *schemas) pattern(re *syntax.Regexp, where string) *expr {
	sub := func() (list []*expr) {
		for _, x := range re.Sub {
			list = append(list, s.pattern(x, where))
		}
		return list
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return seq()
	case syntax.OpNoMatch:
		return alt()
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return s.fail(where, "pattern: letters of either case, (?i), are not supported: want classes such as [Aa]")
		}
		q := quote(string(re.Rune))
		return text(q[1 : len(q)-1])
	case syntax.OpCharClass:
		var list []span
		for i := 0; i+1 < len(re.Rune); i += 2 {
			list = append(list, span{re.Rune[i], re.Rune[i+1]})
		}
		return inString(list)
	case syntax.OpAnyChar:
		return inString([]span{{0, utf8.MaxRune}})
	case syntax.OpAnyCharNotNL: // by ECMA-262, which JSON Schema follows
		return inString(invert([]span{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}))
	case syntax.OpCapture, syntax.OpConcat:
		return seq(sub()...)
	case syntax.OpAlternate:
		return alt(sub()...)
	case syntax.OpStar:
		return repeat(sub()[0], 0, -1)
	case syntax.OpPlus:
		return repeat(sub()[0], 1, -1)
	case syntax.OpQuest:
		return optional(sub()[0])
	case syntax.OpRepeat:
		return repeat(sub()[0], re.Min, re.Max)
	}
	return s.fail(where, "pattern: %v is not supported inside of a pattern", re)
}

// inString is a character of a set as a JSON string has it.
func inString(list []span) *expr {
	e := alt(set(invert(append(invert(list), span{0, ' ' - 1}, span{'"', '"'}, span{'\\', '\\'}))...))
	has := func(c rune) bool {
		return slices.ContainsFunc(list, func(s span) bool { return s.low <= c && c <= s.high })
	}
	for c := rune(0); c <= '\\'; c++ {
		if has(c) && (c < ' ' || c == '"' || c == '\\') {
			q := quote(string(c))
			e.list = append(e.list, text(q[1:len(q)-1]))
		}
	}
	return e
}
