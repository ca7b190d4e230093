package chat

import (
	"html"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// init adds the filters of this file, which split lists and strings, and escape HTML and URLs.
func init() {
	for name, f := range map[string]func(r *run, x value, a args) value{
		"batch": batch, "slice": columns, "groupby": groupBy, "random": random,
		"truncate": truncate, "wordwrap": wordWrap, "filesizeformat": fileSize,
		"urlencode": urlEncode, "xmlattr": xmlAttributes, "striptags": stripTags,
		"forceescape": func(r *run, x value, _ args) value { return markup{escaped(r, printed(r, x))} },
		"swapcase":    stringMethod("swapcase"),
		"center": func(r *run, x value, a args) value {
			return method(printed(r, x), "center").call(r, args{list: []value{a.or(0, "width", 80)}})
		},
	} {
		filters[name] = f
	}
}

// listOfLists builds a list of lists, and limits the number of items in all of them.
type listOfLists struct {
	r   *run
	all list
	n   int // items in it
}

// add appends a list.
func (p *listOfLists) add(items []value) {
	p.n += len(items) + 1
	if p.n > maxItems {
		fail("the parts of a list have more than %d items", maxItems)
	}
	p.r.step(len(items))
	p.all.items = append(p.all.items, &list{items: items})
}

// batch implements the filter batch: it divides items into lists of a given size. If fill_with is given, it fills up
// the last list.
func batch(r *run, x value, a args) value {
	size, fill := a.int(0, "linecount", 0), a.or(1, "fill_with", nil)
	a.need(0, "linecount") // the argument has no default
	p := listOfLists{r: r, all: list{kind: generator}}
	var part []value
	for _, v := range iterate(r, x) {
		if len(part) == size {
			p.add(part)
			part = nil
		}
		part = append(part, v)
	}
	if len(part) > 0 {
		if missing := size - len(part); fill != nil && missing > 0 {
			if missing > maxRange {
				fail("a batch of %d items: want at most %d", size, maxRange)
			}
			part = slices.Concat(part, slices.Repeat([]value{fill}, missing))
		}
		p.add(part)
	}
	return &p.all
}

// columns implements the filter slice: it distributes the items over n lists. If n does not divide the number of items,
// the first lists have one more, and the others are padded with fill_with if that is given.
func columns(r *run, x value, a args) value {
	n, fill := a.int(0, "slices", 0), a.or(1, "fill_with", nil)
	a.need(0, "slices") // the argument has no default
	items := iterate(r, x)
	if n == 0 {
		fail("a division by zero: want one slice or more")
	}
	if n > maxRange {
		fail("%d slices: want at most %d", n, maxRange)
	}
	p := listOfLists{r: r, all: list{kind: generator}}
	least, longer := len(items)/n, len(items)%n // the first `longer` lists have one item more than least
	for i := range max(n, 0) {
		size := least
		if i < longer {
			size++
		}
		part := slices.Clone(items[:size])
		items = items[size:]
		if fill != nil && i >= longer {
			part = append(part, fill)
		}
		p.add(part)
	}
	return &p.all
}

// groupBy groups items by the value of an attribute. The groups are sorted by that value.
func groupBy(r *run, x value, a args) value {
	path, missing := a.need(0, "attribute"), a.or(1, "default", nil)
	cased := truth(a.or(2, "case_sensitive", false))
	grouper := func(v value) value {
		group := attributeAt(r, v, path)
		if isUndefined(group) && missing != nil {
			return missing
		}
		return group
	}
	key := func(v value) value { return folded(r, grouper(v), cased) }
	items := slices.Clone(iterate(r, x))
	slices.SortStableFunc(items, func(a, b value) int { return compare(r, key(a), key(b)) })
	p := listOfLists{r: r}
	for len(items) > 0 {
		n := 1
		for n < len(items) && equal(r, key(items[n]), key(items[0])) {
			n++
		}
		p.add(items[:n:n])
		last := &p.all.items[len(p.all.items)-1]
		// A group is a tuple with names, so that templates can write group.grouper and group.list.
		*last = &list{items: []value{grouper(items[0]), *last}, kind: tuple, names: []string{"grouper", "list"}}
		items = items[n:]
	}
	return &p.all
}

// random computes Jinja's filter random: an item of a sequence, or an undefined value if the sequence is empty.
func random(r *run, x value, _ args) value {
	items := iterate(r, x)
	if len(items) == 0 {
		return undefined{"a random item"}
	}
	return items[rand.IntN(len(items))]
}

// truncate implements the filter truncate: it shortens a string that is longer than length by more than a leeway, and
// appends an end mark. By default it cuts between words.
func truncate(r *run, x value, a args) value {
	s, length, end := printed(r, x), a.int(0, "length", 255), printed(r, a.or(2, "end", text("...")))
	leeway := 5
	if a.or(3, "leeway", nil) != nil {
		leeway = a.int(3, "leeway", 0)
	}
	if length < len(end) || leeway < 0 {
		fail("truncate to %d characters with a leeway of %d: want at least %d characters, the length of the end mark, "+
			"and no negative leeway", length, leeway, len(end))
	}
	if len(s)-leeway <= length {
		return s
	}
	s = s[:length-len(end)]
	if !truth(a.or(1, "killwords", false)) {
		for i := len(s) - 1; i >= 0; i-- {
			if unmarked(s[i]) == ' ' {
				s = s[:i]
				break
			}
		}
	}
	return join(r, s, end)
}

// fileSize implements the filter filesizeformat: it formats a number of bytes for people, such as 1.5 kB.
func fileSize(r *run, x value, a args) value {
	bytes, ok := filters["float"](r, x, args{list: []value{nil}}).(float64)
	if !ok {
		fail("filesizeformat of a %s: want a number", describe(x))
	}
	base, infix := 1000.0, ""
	if truth(a.or(0, "binary", false)) {
		base, infix = 1024, "i"
	}
	switch {
	case bytes == 1:
		return text("1 Byte")
	case math.IsNaN(bytes) || bytes < -1<<62: // no int has the number
		fail("filesizeformat of %v: want a number of bytes", bytes)
	case bytes < base:
		return text(strconv.Itoa(int(bytes)) + " Bytes")
	}
	const letters = "kMGTPEZY"
	unit, i := base, 0
	for ; i < len(letters)-1 && bytes >= unit*base; i++ {
		unit *= base
	}
	letter := letters[i : i+1]
	if infix != "" {
		letter = strings.ToUpper(letter)
	}
	return text(floatDigits(bytes/unit) + " " + letter + infix + "B")
}

// floatDigits formats a float with one decimal.
func floatDigits(f float64) string {
	if math.IsInf(f, 0) {
		return floatText(f, "inf", "nan")
	}
	return strconv.FormatFloat(f, 'f', 1, 64)
}

// urlEncode implements the filter urlencode: it percent-encodes a string. From a mapping or pairs it makes a query
// string.
func urlEncode(r *run, x value, _ args) value {
	var pairs []value
	switch x := withoutMarkup(x).(type) {
	case *dict:
		pairs = x.items().items
	case *list, undefined:
		pairs = iterate(r, x)
	default:
		return quoted(r, printed(r, x), "/", "%20")
	}
	w := writer{r: r}
	for i, p := range pairs {
		if i > 0 {
			w.write("&")
		}
		pair := iterate(r, p)
		if len(pair) != 2 {
			fail("urlencode of an item with %d parts: want a key and a value", len(pair))
		}
		w.add(quoted(r, printed(r, pair[0]), "", "+"))
		w.write("=")
		w.add(quoted(r, printed(r, pair[1]), "", "+"))
	}
	return w.out
}

// quoted percent-encodes the bytes of a string, except unreserved characters and the characters in safe. It replaces a
// space by the string `space`.
func quoted(r *run, s str, safe, space string) str {
	w := writer{r: r}
	for i, c := range s {
		switch plain := unmarked(c); {
		case plain == ' ':
			w.escape(c, space)
		case plain < 0x80 && (isWord(plain) || strings.ContainsRune("-.~"+safe, plain)):
			w.add(s[i : i+1])
		default:
			for _, b := range []byte(string(plain)) {
				w.escape(c, "%"+strings.ToUpper(hex(rune(b), 2)))
			}
		}
	}
	return w.out
}

func isWord(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c) }

// xmlAttributes formats a mapping as the attributes of an XML tag. It skips items that are None or undefined.
func xmlAttributes(r *run, x value, a args) value {
	d, ok := x.(*dict)
	if !ok {
		fail("xmlattr of a %s: want a mapping", describe(x))
	}
	w := writer{r: r}
	for i, k := range d.keys {
		v := d.values[i]
		if v == nil || isUndefined(v) {
			continue
		}
		key, isText := withoutMarkup(k).(str)
		if !isText {
			fail("an attribute's name is a %s: want a string", describe(k))
		}
		if strings.ContainsAny(key.String(), " \t\n\r\v\f/>=") {
			fail("%q is not a valid attribute name: want no white space, /, > and =", key.String())
		}
		if len(w.out) > 0 || truth(a.or(0, "autospace", true)) {
			w.write(" ")
		}
		w.add(escaped(r, k))
		w.write(`="`)
		w.add(escaped(r, v))
		w.write(`"`)
	}
	return w.out
}

// stripTags removes tags and comments from HTML and replaces each run of white space by one space.
func stripTags(r *run, x value, _ args) value {
	s := printed(r, x)
	if m, ok := x.(markup); ok {
		s = m.str
	}
	for _, cut := range []struct{ from, to string }{{"<!--", "-->"}, {"<", ">"}} {
		for {
			i := find(r, s, text(cut.from))
			n := -1
			if i >= 0 {
				n = find(r, s[i:], text(cut.to))
			}
			if n < 0 {
				break
			}
			s = join(r, s[:i], s[i+n+len(cut.to):])
		}
	}
	words := splitBy(r, s, nil, -1)
	items := make([]value, len(words))
	for i, word := range words {
		items[i] = word
	}
	return unescaped(r, joined(r, items, text(" ")))
}

// maxEntity is the maximum length of an HTML entity in characters.
const maxEntity = 40

// unescaped replaces HTML entities by their characters. A character gets the mark of its entity, which says that a user
// wrote it.
func unescaped(r *run, s str) str {
	w := writer{r: r}
	for i := 0; i < len(s); {
		n := 1
		if unmarked(s[i]) == '&' {
			// Only the next characters are searched for the entity's end, so the time stays linear.
			ahead := s[i:min(len(s), i+maxEntity)]
			name := func(c rune) bool { return unmarked(c) == '#' || isWord(unmarked(c)) }
			for n < len(ahead) && name(ahead[n]) {
				n++
			}
			if n < len(ahead) && unmarked(ahead[n]) == ';' {
				n++
			}
			for _, c := range html.UnescapeString(ahead[:n].String()) {
				w.add(str{c | s[i]&mark})
			}
		} else {
			w.add(s[i : i+1])
		}
		i += n
	}
	return w.out
}
