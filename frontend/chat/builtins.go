package chat

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// filters are the filters of Jinja, by name: x|name calls a filter with x and the arguments in parentheses. An init
// function fills the map, because some filters refer to it.
var filters map[string]func(r *run, x value, a args) value

// init fills filters: the functions behind `x | NAME`.
func init() {
	filters = map[string]func(r *run, x value, a args) value{
		"tojson": tojson,
		"length": length, "count": length,
		"string": func(r *run, x value, _ args) value {
			if m, ok := x.(markup); ok {
				return m
			}
			return printed(r, x)
		},
		"safe": func(r *run, x value, _ args) value { return markup{printed(r, x)} },
		"trim": func(r *run, x value, a args) value {
			return strip(r, printed(r, x), a.or(0, "chars", nil), true, true)
		},
		"default": orElse, "d": orElse,
		"lower":      stringMethod("lower"),
		"upper":      stringMethod("upper"),
		"capitalize": stringMethod("capitalize"),
		"title":      titleCase,
		"replace": func(r *run, x value, a args) value {
			old, with := printed(r, a.need(0, "old")), printed(r, a.need(1, "new"))
			return replace(r, printed(r, x), old, with, a.or(2, "count", nil))
		},
		"items": itemsOf,
		"join": func(r *run, x value, a args) value {
			items, by := pick(r, iterate(r, x), a.or(1, "attribute", nil)), printed(r, a.or(0, "d", str{}))
			return joined(r, items, by)
		},
		"list":    func(r *run, x value, _ args) value { return &list{items: slices.Clone(iterate(r, x))} },
		"first":   func(r *run, x value, _ args) value { return itemOf(iterate(r, x), 0) },
		"last":    func(r *run, x value, _ args) value { items := iterate(r, x); return itemOf(items, len(items)-1) },
		"reverse": reversed,
		"int":     toInt,
		"float":   toFloat,
		"abs":     absolute,
		"round":   rounded,
		"sum": func(r *run, x value, a args) value {
			total := a.or(1, "start", 0)
			for _, v := range pick(r, iterate(r, x), a.or(0, "attribute", nil)) {
				total = arithmetic(r, "+", total, v)
			}
			return total
		},
		"min":        func(r *run, x value, a args) value { return extreme(r, x, a, -1) },
		"max":        func(r *run, x value, a args) value { return extreme(r, x, a, 1) },
		"sort":       sorted,
		"dictsort":   dictSorted,
		"unique":     uniqueItems,
		"map":        mapItems,
		"select":     func(r *run, x value, a args) value { return choose(r, x, nil, a, true) },
		"reject":     func(r *run, x value, a args) value { return choose(r, x, nil, a, false) },
		"selectattr": func(r *run, x value, a args) value { return chooseByAttribute(r, x, a, true) },
		"rejectattr": func(r *run, x value, a args) value { return chooseByAttribute(r, x, a, false) },
		"attr":       attributeOf,
		"indent":     indent,
		"wordcount": func(r *run, x value, _ args) value {
			return len(strings.FieldsFunc(printed(r, x).String(), func(c rune) bool { return !isWord(c) }))
		},
		"escape": escape, "e": escape,
		"format": formatBy,
	}
}

// titleCase implements the filter title: the first letter of each word in upper case, the others in lower case.
func titleCase(r *run, x value, _ args) value {
	begins := true
	return change(r, printed(r, x), func(c rune) rune {
		was := begins
		begins = unicode.IsSpace(c) || strings.ContainsRune("-({[<", c)
		if was {
			return unicode.ToUpper(c)
		}
		return unicode.ToLower(c)
	})
}

// itemsOf implements the filter items: the pairs of a mapping's keys and values.
func itemsOf(r *run, x value, _ args) value {
	switch x := x.(type) {
	case undefined:
		return &list{kind: generator}
	case *dict:
		all := x.items()
		all.kind = generator
		return all
	}
	fail("items of a %s: want a mapping", describe(x))
	return nil
}

// reversed implements the filter reverse: the characters of a string, or the items of a list, in reverse order.
func reversed(r *run, x value, _ args) value {
	items := slices.Clone(iterate(r, x))
	slices.Reverse(items)
	if _, ok := x.(str); ok {
		return joined(r, items, nil)
	}
	return &list{items: items, kind: generator}
}

// toInt implements the filter int: it converts a string or a number to an integer. A value that it cannot convert
// becomes the argument default, 0 unless given.
func toInt(r *run, x value, a args) value {
	if s, ok := withoutMarkup(x).(str); ok {
		if n, ok := parseInt(s.String(), a.int(1, "base", 10)); ok {
			return n
		}
		f, ok := parseFloat(s.String())
		if !ok {
			return a.or(0, "default", 0)
		}
		x = f
	}
	i, f, isInt, ok := number(x)
	switch {
	case isInt:
		return i
	case ok && math.Abs(f) < 1<<62:
		return int(f)
	case isUndefined(x):
		fail("int of a %s", describe(x))
	}
	return a.or(0, "default", 0)
}

// toFloat implements the filter float: it converts a string or a number to a float. A value that it cannot convert
// becomes the argument default, 0.0 unless given.
func toFloat(r *run, x value, a args) value {
	if s, ok := withoutMarkup(x).(str); ok {
		if f, ok := parseFloat(s.String()); ok {
			return f
		}
	}
	if _, f, _, ok := number(x); ok {
		return f
	}
	return a.or(0, "default", 0.0)
}

// absolute implements the filter abs.
func absolute(r *run, x value, _ args) value {
	switch i, f, isInt, ok := number(x); {
	case isInt:
		return max(i, -i)
	case ok:
		return math.Abs(f)
	}
	fail("abs of a %s: want a number", describe(x))
	return nil
}

// rounded implements the filter round, with the arguments precision, a number of digits, and method.
func rounded(r *run, x value, a args) value {
	i, f, isInt, ok := number(x)
	if !ok {
		fail("round of a %s: want a number", describe(x))
	}
	digits := a.int(0, "precision", 0)
	scale := math.Pow(10, float64(digits))
	switch method := printed(r, a.or(1, "method", text("common"))).String(); {
	case method == "ceil":
		return math.Ceil(f*scale) / scale
	case method == "floor":
		return math.Floor(f*scale) / scale
	case method != "common":
		fail("round by %q: want common, ceil or floor", method)
	case isInt && digits >= 0:
		return i
	case isInt:
		return int(math.RoundToEven(f*scale) / scale) // digits before the point
	case digits >= 0 && digits < maxWidth:
		// Python rounds the decimal representation, which a multiplication by the scale would change.
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
		return f
	}
	return math.RoundToEven(f*scale) / scale
}

// sorted implements the filter sort. Its argument attribute names the attributes to sort by, separated by commas. A
// name may be a path, such as user.name.
func sorted(r *run, x value, a args) value {
	items := slices.Clone(iterate(r, x))
	by := []value{a.or(2, "attribute", nil)} // nil sorts by the items themselves
	if path, ok := withoutMarkup(by[0]).(str); ok {
		by = iterate(r, texts(split(r, path, text(","), -1)))
	}
	cased := a.or(1, "case_sensitive", false)
	slices.SortStableFunc(items, func(x, y value) int {
		for _, path := range by {
			if n := order(r, cased, path)(x, y); n != 0 {
				return n
			}
		}
		return 0
	})
	if truth(a.or(0, "reverse", false)) {
		slices.Reverse(items)
	}
	return &list{items: items}
}

// dictSorted implements the filter dictsort: the items of a mapping, sorted by key or by value.
func dictSorted(r *run, x value, a args) value {
	d, ok := x.(*dict)
	if !ok {
		fail("dictsort of a %s: want a mapping", describe(x))
	}
	by := 0
	switch name := printed(r, a.or(1, "by", text("key"))).String(); name {
	case "key":
	case "value":
		by = 1
	default:
		fail("dictsort by %q: want key or value", name)
	}
	all := d.items()
	slices.SortStableFunc(all.items, order(r, a.or(0, "case_sensitive", false), by))
	if truth(a.or(2, "reverse", false)) {
		slices.Reverse(all.items)
	}
	return all
}

// uniqueItems implements the filter unique: of equal items it keeps the first.
func uniqueItems(r *run, x value, a args) value {
	seen, all := newDict(), &list{kind: generator}
	for _, v := range iterate(r, x) {
		key := folded(r, attributeAt(r, v, a.or(1, "attribute", nil)), truth(a.or(0, "case_sensitive", false)))
		wantKey(r, key)
		if _, ok := seen.get(r, key); !ok {
			seen.set(r, key, true)
			all.items = append(all.items, v)
		}
	}
	return all
}

// mapItems implements the filter map: it replaces each item by an attribute of the item, or by the result of another
// filter.
func mapItems(r *run, x value, a args) value {
	all := &list{kind: generator}
	if !truth(x) {
		return all
	}
	for _, v := range iterate(r, x) {
		if attr, ok := a.take(-1, "attribute"); ok {
			v = attributeAt(r, v, attr)
			if missing, ok := a.take(-1, "default"); ok && isUndefined(v) {
				v = missing
			}
		} else {
			name, rest := a.shift("filter")
			v = callFilter(r, printed(r, name).String(), v, rest)
		}
		all.items = append(all.items, v)
	}
	return all
}

// attributeOf implements the filter attr: x|attr(name) is x.name, but never an item of a mapping.
func attributeOf(r *run, x value, a args) value {
	name := a.str(0, "name")
	if m := method(withoutMarkup(x), name.String()); m != nil {
		return m
	}
	if _, ok := x.(*dict); ok { // its items are not attributes
		return undefined{name.String()}
	}
	return lookup(r, x, name)
}

// formatBy implements the filter format: Python's operator % on the string x, with the arguments as values.
func formatBy(r *run, x value, a args) value {
	if len(a.names) == 0 {
		return format(r, printed(r, x), &list{items: a.list, kind: tuple})
	}
	if len(a.list) > 0 {
		fail("format has names for some of its values: want names for all, or for none")
	}
	return format(r, printed(r, x), fromArgs(r, a))
}

// parseInt parses an integer as Python's int does, and returns false if it is none. With base 0, a prefix such as 0x
// sets the base.
func parseInt(s string, base int) (n int, ok bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 { // more than one sign
		return 0, false
	}
	sign := s[:len(s)-len(digits)]
	for prefix, of := range map[string]int{"0b": 2, "0o": 8, "0x": 16} {
		if rest, has := strings.CutPrefix(digits, prefix); has && (base == of || base == 0) {
			digits, base = strings.TrimPrefix(rest, "_"), of
			break
		}
	}
	if base == 0 {
		// Python allows no zeros before a decimal number.
		base = 10
		if strings.HasPrefix(digits, "0") && strings.Trim(digits, "0_") != "" {
			return 0, false
		}
	}
	if base < 2 || base > 36 {
		fail("int of the base %d: want 0, or 2 to 36", base)
	}
	digits, ok = withoutUnderscores(digits)
	m, err := strconv.ParseInt(sign+digits, base, 64)
	return int(m), ok && err == nil
}

// parseFloat reads a number as Python's float does.
func parseFloat(s string) (f float64, ok bool) {
	s, ok = withoutUnderscores(strings.TrimSpace(s))
	unsigned := strings.TrimLeft(s, "+-")
	if len(s)-len(unsigned) == 1 && strings.EqualFold(unsigned, "nan") {
		s = unsigned // Go does not accept a sign here
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, ok && (err == nil || math.IsInf(f, 0)) && !strings.ContainsAny(s, "xX")
}

// withoutUnderscores removes the underscores between digits. ok is false if there are other underscores.
func withoutUnderscores(s string) (plain string, ok bool) {
	apart := !strings.HasPrefix(s, "_") && !strings.HasSuffix(s, "_") && !strings.Contains(s, "__")
	return strings.ReplaceAll(s, "_", ""), apart
}

func isUndefined(v value) bool { _, ok := v.(undefined); return ok }

// stringMethod returns the filter that calls a method of strings on x.
func stringMethod(name string) func(r *run, x value, a args) value {
	return func(r *run, x value, a args) value { return method(printed(r, x), name).call(r, a) }
}

// eval applies the filter to the value of its expression.
func (f filter) eval(r *run, s *scope) value {
	r.beginLevel()
	defer r.endLevel()
	r.step(1)
	return callFilter(r, f.name, f.x.eval(r, s), f.args.eval(r, s))
}

// callFilter calls a filter by name. It fails if there is none.
func callFilter(r *run, name string, x value, a args) value {
	f, ok := filters[name]
	if !ok {
		fail("there is no filter %q", name)
	}
	return f(r, x, a)
}

// tojson formats a value as JSON, with the options of Python's json.dumps.
func tojson(r *run, x value, a args) value {
	style := jsonStyle{item: text(", "), key: text(": ")}
	style.ascii, style.sort = truth(a.or(0, "ensure_ascii", false)), truth(a.or(3, "sort_keys", false))
	switch indent := a.or(1, "indent", nil).(type) {
	case nil:
	case int:
		if indent > maxRange {
			fail("an indent of %d: want less", indent)
		}
		style.lines, style.item, style.indent = true, text(","), slices.Repeat(text(" "), max(0, indent))
	case str:
		style.lines, style.item, style.indent = true, text(","), indent
	default:
		fail("indent is a %s: want a number or a string", describe(indent))
	}
	if l, ok := a.or(2, "separators", nil).(*list); ok && len(l.items) == 2 {
		style.item, style.key = printed(r, l.items[0]), printed(r, l.items[1])
	}
	w := writer{r: r}
	w.json(x, style, 0)
	return w.out
}

// length returns the number of characters of a string, or of items of a list or mapping. It fails for other values,
// which have no length.
func length(_ *run, x value, _ args) value {
	switch x := withoutMarkup(x).(type) {
	case str:
		return len(x)
	case *list:
		if x.kind != generator {
			return len(x.items)
		}
	case *dict:
		return len(x.keys)
	case undefined:
		return 0
	}
	fail("a %s has no length: want a string, a list or a mapping", describe(x))
	return nil
}

// orElse computes Jinja's filter default: it replaces an undefined value, and with boolean=true any false value.
func orElse(_ *run, x value, a args) value {
	if isUndefined(x) || truth(a.or(1, "boolean", false)) && !truth(x) {
		return a.or(0, "default_value", str{})
	}
	return x
}

// attributeAt returns the attribute of v at a path such as "function.name", or v itself if path is nil. A number in the
// path is an index.
func attributeAt(r *run, v, path value) value {
	switch path := path.(type) {
	case nil:
		return v
	case int:
		return at(r, v, path)
	case str:
		for part := range strings.SplitSeq(path.String(), ".") {
			if n, err := strconv.Atoi(part); err == nil {
				v = at(r, v, n)
			} else {
				v = at(r, v, text(part))
			}
		}
		return v
	}
	fail("an attribute is a %s: want its name", describe(path))
	return nil
}

// pick returns, for each item, its attribute at a path.
func pick(r *run, items []value, path value) []value {
	picked := make([]value, len(items))
	for i, v := range items {
		picked[i] = attributeAt(r, v, path)
	}
	return picked
}

// itemOf returns item i, or undefined if there are no items.
func itemOf(items []value, i int) value {
	if len(items) == 0 {
		return undefined{"an item"}
	}
	return items[i]
}

// joined concatenates the printed items, with by between them.
func joined(r *run, items []value, by str) str {
	w := writer{r: r}
	for i, v := range items {
		if i > 0 {
			w.add(by)
		}
		w.add(printed(r, v))
	}
	return w.out
}

// order returns a function that compares values by the attribute at path, as cmp.Compare does. It ignores the case of
// letters unless caseSensitive is true.
func order(r *run, caseSensitive, path value) func(a, b value) int {
	key := func(v value) value { return folded(r, attributeAt(r, v, path), truth(caseSensitive)) }
	return func(a, b value) int { return compare(r, key(a), key(b)) }
}

// folded returns a string in lower case for comparisons, unless cased is set. Other values stay.
func folded(r *run, v value, cased bool) value {
	if s, ok := withoutMarkup(v).(str); ok && !cased {
		return change(r, s, unicode.ToLower)
	}
	return v
}

// extreme returns the smallest item if sign is -1, or the largest one if sign is 1.
func extreme(r *run, x value, a args, sign int) value {
	var best value = undefined{"an item"}
	compared := order(r, a.or(0, "case_sensitive", false), a.or(1, "attribute", nil))
	for i, v := range iterate(r, x) {
		if i == 0 || sign*compared(v, best) > 0 {
			best = v
		}
	}
	return best
}

// chooseByAttribute implements the filters selectattr (want is true) and rejectattr (want is false): for each item it
// tests the attribute that the first argument names.
func chooseByAttribute(r *run, x value, a args, want bool) value {
	path, rest := a.shift("attribute")
	return choose(r, x, path, rest, want)
}

// choose implements the filters select (want is true) and reject (want is false): it keeps the items for which a test
// returns want. It tests the attribute of each item at path, or the item itself if path is nil.
func choose(r *run, x, path value, a args, want bool) value {
	all := &list{kind: generator}
	if !truth(x) {
		return all
	}
	for _, v := range iterate(r, x) {
		tested := attributeAt(r, v, path)
		holds := truth(tested)
		if len(a.list) > 0 {
			name, rest := a.shift("test")
			holds = callTest(r, printed(r, name).String(), tested, rest)
		}
		if holds == want {
			all.items = append(all.items, v)
		}
	}
	return all
}

// indent implements the filter indent: it puts spaces, or a string, before each line of x. By default it leaves out the
// first line and blank lines.
func indent(r *run, x value, a args) value {
	var by str
	switch w := a.or(0, "width", 4).(type) {
	case int:
		by = slices.Repeat(text(" "), min(maxRange, max(0, w)))
	case str:
		by = w
	}
	w := writer{r: r}
	for i, l := range lines(r, join(r, printed(r, x), text("\n"))) { // a line end at the end makes one more line
		if i > 0 {
			w.write("\n")
		}
		if i == 0 && truth(a.or(1, "first", false)) || i > 0 && (len(l) > 0 || truth(a.or(2, "blank", false))) {
			w.add(by)
		}
		w.add(l)
	}
	return w.out
}

func escape(r *run, x value, _ args) value { return markup{escaped(r, x)} }

// escaped returns a value printed and escaped for HTML, unless it is escaped already (markup).
func escaped(r *run, x value) str {
	if m, ok := x.(markup); ok {
		return m.str
	}
	entities := map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;", '"': "&#34;", '\'': "&#39;"}
	w := writer{r: r}
	for _, c := range printed(r, x) {
		if e, ok := entities[unmarked(c)]; ok {
			w.escape(c, e)
		} else {
			w.add(str{c})
		}
	}
	return w.out
}

// tests are the tests of Jinja, by name: x is name.
var tests map[string]func(r *run, x value, a args) bool

// init fills tests: the functions behind `x is NAME`.
func init() {
	is := func(kinds ...string) func(*run, value, args) bool {
		return func(_ *run, x value, _ args) bool { return slices.Contains(kinds, typeName(x)) }
	}
	relation := func(op string) func(*run, value, args) bool {
		return func(r *run, x value, a args) bool { return holds(r, op, x, a.need(0, "other")) }
	}
	remainder := func(n, want int) func(*run, value, args) bool {
		return func(r *run, x value, _ args) bool { return equal(r, arithmetic(r, "%", x, n), want) }
	}
	without := func(wrong func(rune) bool) func(*run, value, args) bool { // of texts with a letter
		return func(r *run, x value, _ args) bool {
			s := printed(r, x).String()
			return strings.ContainsFunc(s, unicode.IsLetter) && !strings.ContainsFunc(s, wrong)
		}
	}
	tests = map[string]func(r *run, x value, a args) bool{
		"defined":   func(_ *run, x value, _ args) bool { return !isUndefined(x) },
		"undefined": func(_ *run, x value, _ args) bool { return isUndefined(x) },
		"none":      is("NoneType"), "string": is("str"), "mapping": is("dict"), "boolean": is("bool"),
		"integer": is("int"), "float": is("float"),
		"number":   func(_ *run, x value, _ args) bool { _, _, _, ok := number(x); return ok },
		"true":     func(_ *run, x value, _ args) bool { return x == true },
		"false":    func(_ *run, x value, _ args) bool { return x == false },
		"callable": func(_ *run, x value, _ args) bool { _, ok := x.(*callable); return ok },
		"iterable": is("str", "list", "tuple", "generator", "dict", "undefined value"),
		"sequence": is("str", "list", "tuple", "dict", "undefined value"),
		"in":       relation("in"),
		"escaped":  func(_ *run, x value, _ args) bool { _, ok := x.(markup); return ok },
		"even":     remainder(2, 0), "odd": remainder(2, 1),
		"divisibleby": func(r *run, x value, a args) bool {
			return equal(r, arithmetic(r, "%", x, a.need(0, "num")), 0)
		},
		"sameas": func(r *run, x value, a args) bool {
			y := a.need(0, "other")
			return typeName(x) == typeName(y) && equal(r, x, y)
		},
		"lower": without(unicode.IsUpper), "upper": without(unicode.IsLower),
		"filter": func(_ *run, x value, _ args) bool { s, _ := x.(str); return filters[s.String()] != nil },
		"test":   func(_ *run, x value, _ args) bool { s, _ := x.(str); return tests[s.String()] != nil },
	}
	for op, names := range map[string]string{"==": "eq equalto", "!=": "ne", "<": "lt lessthan", "<=": "le",
		">": "gt greaterthan", ">=": "ge"} {
		for _, name := range append(strings.Fields(names), op) {
			tests[name] = relation(op)
		}
	}
}

func (t test) eval(r *run, s *scope) value {
	r.step(1)
	return callTest(r, t.name, t.x.eval(r, s), t.args.eval(r, s)) != t.not
}

// callTest calls a test by name. It fails if there is none.
func callTest(r *run, name string, x value, a args) bool {
	f, ok := tests[name]
	if !ok {
		fail("there is no test %q", name)
	}
	return f(r, x, a)
}

// functions are the functions that every template can call, by name.
var functions = map[string]*callable{
	"range": {"range", func(r *run, a args) value {
		from, to, step := 0, a.int(0, "stop", 0), a.int(2, "step", 1)
		if len(a.list) > 1 {
			from, to = to, a.int(1, "stop", 0)
		}
		if step == 0 {
			fail("the step of a range is 0")
		}
		all := &list{}
		for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
			if len(all.items) == maxRange {
				fail("a range has more than %d numbers", maxRange)
			}
			all.items = append(all.items, i)
		}
		r.step(len(all.items))
		return all
	}},
	"dict":      {"dict", func(r *run, a args) value { return fromArgs(r, a) }},
	"namespace": {"namespace", func(r *run, a args) value { return &namespace{fromArgs(r, a)} }},
	"cycler": {"cycler", func(_ *run, a args) value {
		if len(a.list) == 0 {
			fail("a cycler without values: want at least one")
		}
		return &cycler{items: a.list}
	}},
	"joiner": {"joiner", func(_ *run, a args) value {
		by, used := a.or(0, "sep", text(", ")), false
		return &callable{"joiner", func(*run, args) value {
			if used {
				return by
			}
			used = true
			return str{}
		}}
	}},
	"raise_exception": {"raise_exception", func(r *run, a args) value {
		fail("the template refuses: %s", printed(r, a.need(0, "message")))
		return nil
	}},
	"strftime_now": {"strftime_now", func(r *run, a args) value { return text(r.now(a.str(0, "format").String())) }},
}

// cycler is the value of Jinja's cycler(): its method next returns the items in rotation.
type cycler struct {
	items []value
	at    int
}

// get returns an attribute: current, or one of the methods next and reset.
func (c *cycler) get(name string) value {
	switch name {
	case "current":
		return c.items[c.at]
	case "next":
		return &callable{"next", func(*run, args) value {
			v := c.items[c.at]
			c.at = (c.at + 1) % len(c.items)
			return v
		}}
	case "reset":
		return &callable{"reset", func(*run, args) value { c.at = 0; return nil }}
	}
	return undefined{name}
}

// fromArgs returns the mapping that dict(mapping, key=value) makes.
func fromArgs(r *run, a args) *dict {
	d := newDict()
	for _, v := range a.list {
		from, ok := v.(*dict)
		if !ok {
			fail("a mapping of a %s: want a mapping", describe(v))
		}
		for i, k := range from.keys {
			d.set(r, k, from.values[i])
		}
	}
	for i, n := range a.names {
		d.set(r, text(n), a.named[i])
	}
	r.step(len(d.keys))
	return d
}
