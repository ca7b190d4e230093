package grammar

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"unicode/utf8"
)

// A language is the set of the strings that match some patterns, match none of others, and have a length in a range.
// It is a product of nondeterministic automata, made deterministic as far as strings lead (subset construction).
type language struct {
	parts     []part
	low, high int // characters; no bound if high is negative
}

// part is a pattern that a string must match, or must not if not is set.
type part struct {
	pattern *pattern
	not     bool
}

// steps is the automaton of a pattern, which searches for a match anywhere in a string (Thompson, CACM 11, 1968).
type steps struct {
	list  []step
	sets  [][]span
	spend func(int) bool
}

// step is a state of an automaton.
type step struct {
	op  stepOp
	set int     // of stepChar: index in sets
	out []int32 // the states that follow
	sub int32   // of look-ahead: the first state of what must follow, or must not
}

type stepOp uint8

const (
	stepChar   stepOp = iota // reads a character of a set
	stepFree                 // reads nothing
	stepBegin                // reads nothing, at the beginning of the string
	stepEnd                  // reads nothing, at the end of the string
	stepAhead                // reads nothing, and what follows matches sub
	stepNot                  // reads nothing, and what follows does not match sub
	stepAccept               // the string matches, whatever follows
)

// maxLanguage bounds the states of the deterministic automaton.
const maxLanguage = 1 << 14

// automatonOf returns the automaton that finds a match of a pattern anywhere in a string: before it, it reads any
// characters. Its first state is the last of the list. spend counts work, and returns false if it was too much.
func automatonOf(p *pattern, spend func(int) bool) (*steps, error) {
	a := &steps{spend: spend}
	end := a.add(step{op: stepAccept})
	body, err := a.expr(p, end, false)
	if err != nil {
		return nil, err
	}
	loop := a.add(step{op: stepFree})
	next := a.char([]span{{0, utf8.MaxRune}}, loop)
	a.list[loop].out = []int32{body, next}
	a.add(step{op: stepFree, out: []int32{loop}})
	return a, nil
}

// first returns the first state of the automaton.
func (a *steps) first() int32 { return int32(len(a.list) - 1) }

// add adds a state and returns its index.
func (a *steps) add(s step) int32 {
	a.list = append(a.list, s)
	return int32(len(a.list) - 1)
}

// char adds a state that reads a character of a set, after which next follows.
func (a *steps) char(set []span, next int32) int32 {
	for i, s := range a.sets {
		if slices.Equal(s, set) {
			return a.add(step{op: stepChar, set: i, out: []int32{next}})
		}
	}
	a.sets = append(a.sets, set)
	return a.add(step{op: stepChar, set: len(a.sets) - 1, out: []int32{next}})
}

// expr adds the states of a pattern, after which the automaton continues at next. It returns the first of them. inside
// says that the pattern is in a look-ahead.
func (a *steps) expr(p *pattern, next int32, inside bool) (int32, error) {
	if !a.spend(4) || len(a.list) > maxLanguage {
		return 0, fmt.Errorf("it is too large: want smaller repetitions")
	}
	var err error
	switch p.op {
	case patternSet:
		return a.char(p.set, next), nil
	case patternSeq:
		for _, x := range slices.Backward(p.list) {
			if next, err = a.expr(x, next, inside); err != nil {
				return 0, err
			}
		}
		return next, nil
	case patternAlt:
		s := step{op: stepFree}
		for _, x := range p.list {
			begin, err := a.expr(x, next, inside)
			if err != nil {
				return 0, err
			}
			s.out = append(s.out, begin)
		}
		return a.add(s), nil
	case patternRepeat:
		return a.repeat(p, next, inside)
	case patternBegin:
		return a.add(step{op: stepBegin, out: []int32{next}}), nil
	case patternEnd:
		return a.add(step{op: stepEnd, out: []int32{next}}), nil
	}
	if inside {
		return 0, fmt.Errorf("a look-ahead inside another is not supported: put one after the other")
	}
	// A look-ahead is an automaton of its own that starts here, and that must or must not accept.
	sub, err := a.expr(p.list[0], a.add(step{op: stepAccept}), true)
	op := stepAhead
	if p.op == patternNot {
		op = stepNot
	}
	return a.add(step{op: op, out: []int32{next}, sub: sub}), err
}

// repeat is expr for a repetition. It has p.max copies of the repeated pattern; the first p.min of them must match.
// Without a maximum, a loop follows p.min copies. inside says that the pattern is part of a look-ahead.
func (a *steps) repeat(p *pattern, next int32, inside bool) (int32, error) {
	start := next
	if p.max < 0 {
		start = a.add(step{op: stepFree})
		body, err := a.expr(p.list[0], start, inside)
		if err != nil {
			return 0, err
		}
		a.list[start].out = []int32{body, next}
	}
	for i := range max(p.max, p.min) { // from the last copy to the first
		begin, err := a.expr(p.list[0], start, inside)
		if err != nil {
			return 0, err
		}
		start = begin
		if optional := i < p.max-p.min; optional {
			start = a.add(step{op: stepFree, out: []int32{begin, next}})
		}
	}
	return start, nil
}

// thread is one way in which an automaton may have read the string so far. at is its state. never has the states of
// negative look-aheads that have begun: the thread ends if one of the states comes to a match. must has a set of states
// for each positive look-ahead that has begun: one state of each set must come to a match.
type thread struct {
	at    int32
	never []int32
	must  [][]int32
}

// key appends an encoding of the thread to b. Different threads have different encodings.
func (t thread) key(b []byte) []byte {
	list := func(b []byte, l []int32) []byte {
		b = binary.AppendUvarint(b, uint64(len(l)))
		for _, x := range l {
			b = binary.AppendUvarint(b, uint64(x))
		}
		return b
	}
	b = list(binary.AppendUvarint(b, uint64(t.at)), t.never)
	b = binary.AppendUvarint(b, uint64(len(t.must)))
	for _, l := range t.must {
		b = list(b, l)
	}
	return b
}

// reach adds to a list the states that state from leads to without a character. It omits states that only lead on to
// others: it adds states that read a character, that wait for the end, or that accept. begins says that this is the
// beginning of the string. The result is sorted.
func (a *steps) reach(list []int32, from int32, begins bool) []int32 {
	seen := map[int32]bool{}
	for _, x := range list {
		seen[x] = true
	}
	for todo := []int32{from}; len(todo) > 0; {
		x := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		switch s := a.list[x]; {
		case seen[x]:
		case s.op == stepFree, s.op == stepBegin:
			seen[x] = true
			if s.op == stepFree || begins {
				todo = append(todo, s.out...)
			}
		default:
			seen[x] = true
			list = append(list, x)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// accepts reports whether one of the states accepts.
func (a *steps) accepts(list []int32) bool {
	return slices.ContainsFunc(list, func(x int32) bool { return a.list[x].op == stepAccept })
}

// spread adds the threads that a thread leads to without a character. begins says that this is the beginning of the
// string.
func (a *steps) spread(into map[string]thread, t thread, begins bool) {
	seen := map[string]bool{}
	// todo has the threads that are not followed yet. One that waits for a character, for the end or that accepts goes
	// into the result.
	for todo := []thread{t}; len(todo) > 0 && a.spend(1+len(todo[0].never)); {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		key := string(t.key(nil))
		if seen[key] {
			continue
		}
		seen[key] = true
		s := a.list[t.at]
		follow := func(never []int32, must [][]int32) {
			for _, x := range s.out {
				todo = append(todo, thread{x, never, must})
			}
		}
		switch s.op {
		case stepFree:
			follow(t.never, t.must)
		case stepBegin:
			if begins {
				follow(t.never, t.must)
			}
		case stepNot:
			// If sub already matches, by the empty string, the thread ends here.
			if never := a.reach(slices.Clone(t.never), s.sub, begins); !a.accepts(never) {
				follow(never, t.must)
			}
		case stepAhead:
			switch must := a.reach(nil, s.sub, begins); {
			case a.accepts(must): // by the empty string
				follow(t.never, t.must)
			case len(must) > 0:
				follow(t.never, append(slices.Clone(t.must), must))
			}
		default:
			into[key] = t
		}
	}
}

// sorted returns threads in the order of their keys, so that equal sets are equal lists. A thread that accepts every
// continuation makes the others unnecessary, and is returned alone.
func (a *steps) sorted(all map[string]thread) (list []thread) {
	keys := make([]string, 0, len(all))
	for k, t := range all {
		if a.list[t.at].op == stepAccept && len(t.never) == 0 && len(t.must) == 0 {
			return []thread{t}
		}
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		list = append(list, all[k])
	}
	return list
}

// begin returns the threads at the beginning of a string.
func (a *steps) begin() []thread {
	all := map[string]thread{}
	a.spread(all, thread{at: a.first()}, true)
	return a.sorted(all)
}

// next returns the threads after a character. in reports whether a set of the automaton has the character.
func (a *steps) next(list []thread, in func(set int) bool) []thread {
	all := map[string]thread{}
	move := func(from []int32) (to []int32) {
		for _, x := range from {
			if s := a.list[x]; s.op == stepChar && in(s.set) {
				to = a.reach(to, s.out[0], false)
			}
		}
		return to
	}
threads:
	for _, t := range list {
		s, to := a.list[t.at], t.at
		switch {
		case s.op == stepChar && in(s.set):
			to = s.out[0]
		case s.op != stepAccept:
			continue
		}
		// A thread ends if a negative look-ahead has matched, or if a positive one cannot match any more.
		never := move(t.never)
		if a.accepts(never) {
			continue
		}
		var must [][]int32
		for _, l := range t.must {
			l = move(l)
			switch {
			case len(l) == 0:
				continue threads
			case !a.accepts(l):
				must = append(must, l)
			}
		}
		slices.SortFunc(must, slices.Compare)
		a.spread(all, thread{to, never, slices.CompactFunc(must, slices.Equal)}, false)
	}
	return a.sorted(all)
}

// matchesAtEnd reports whether the automaton, in state `from`, accepts if the string ends here. begins says that the
// string is empty: then ^ matches as well as $.
func (a *steps) matchesAtEnd(from int32, begins bool) bool {
	seen := map[int32]bool{}
	for todo := []int32{from}; len(todo) > 0; {
		x := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		s := a.list[x]
		if seen[x] {
			continue
		}
		passes := true // whether the string's end meets the condition of the step
		switch s.op {
		case stepAccept:
			return true
		case stepChar:
			passes = false
		case stepBegin:
			passes = begins
		case stepAhead:
			passes = a.matchesAtEnd(s.sub, begins)
		case stepNot:
			passes = !a.matchesAtEnd(s.sub, begins)
		}
		if !passes {
			continue
		}
		seen[x] = true
		todo = append(todo, s.out...)
	}
	return false
}

// ends reports whether a string matches that ends where these threads are. begins says that the string is empty.
func (a *steps) ends(list []thread, begins bool) bool {
	any := func(l []int32) bool {
		return slices.ContainsFunc(l, func(x int32) bool { return a.matchesAtEnd(x, begins) })
	}
	return slices.ContainsFunc(list, func(t thread) bool {
		return a.matchesAtEnd(t.at, begins) && !any(t.never) &&
			!slices.ContainsFunc(t.must, func(l []int32) bool { return !any(l) })
	})
}

// matches reports whether a string contains a match of a pattern.
func (p *pattern) matches(text string, spend func(int) bool) (bool, error) {
	a, err := automatonOf(p, spend)
	if err != nil {
		return false, err
	}
	list := a.begin()
	for _, c := range text {
		list = a.next(list, func(set int) bool {
			return slices.ContainsFunc(a.sets[set], func(s span) bool { return s.low <= c && c <= s.high })
		})
	}
	return a.ends(list, text == ""), nil
}

// place is a state of the deterministic automaton of a language.
type place struct {
	threads [][]thread // by part
	length  int
	ways    []way
	ends    bool
}

// way leads from a place to another, by a character of a set.
type way struct {
	set []span
	to  int
}

// graph returns the deterministic automaton of a language. Its first place is the beginning.
func (l language) graph(spend func(int) bool) (list []place, err error) {
	g := &languageGraph{language: l, automata: make([]*steps, len(l.parts)), spend: spend, known: map[string]int{}}
	begin := place{}
	for i, p := range l.parts {
		if g.automata[i], err = automatonOf(p.pattern, spend); err != nil {
			return nil, err
		}
		begin.threads = append(begin.threads, g.automata[i].begin())
	}
	g.classes = classesOf(g.automata)
	g.add(begin)
	for i := 0; i < len(g.list); i++ { // ways adds places
		if len(g.list) > maxLanguage || !spend(1<<4) {
			return nil, fmt.Errorf("the keywords for this string need too many states (lengths and several patterns " +
				"together): want a simpler schema")
		}
		p := g.list[i]
		p.ends = p.length >= l.low
		for k, a := range g.automata {
			p.ends = p.ends && a.ends(p.threads[k], i == 0) != l.parts[k].not // a part with not must not match
		}
		if l.high < 0 || p.length < l.high {
			p.ways = g.ways(p)
		}
		g.list[i] = p
	}
	return g.list, nil
}

// languageGraph is the deterministic automaton of a language while it is built.
type languageGraph struct {
	language
	automata []*steps // by part
	classes  []charClass
	list     []place
	known    map[string]int // indices in list, by the lengths and threads of places
	spend    func(int) bool
}

// add returns the index of a place in the graph, and adds it unless an equal one is there.
func (g *languageGraph) add(p place) int {
	key := binary.AppendUvarint(nil, uint64(p.length))
	for _, threads := range p.threads {
		key = binary.AppendUvarint(key, uint64(len(threads)))
		for _, t := range threads {
			key = t.key(key)
		}
	}
	id, ok := g.known[string(key)]
	if !ok {
		id = len(g.list)
		g.known[string(key)] = id
		g.list = append(g.list, p)
	}
	return id
}

// ways returns the ways from a place, and adds the places to which they lead.
func (g *languageGraph) ways(p place) (list []way) {
	sets := map[int][]span{} // by place: the characters that lead there
	var order []int          // the keys of sets
	for _, c := range g.classes {
		next := place{length: min(p.length+1, max(g.low, g.high)), threads: make([][]thread, len(g.automata))}
		dead := false // whether a pattern that must match can no longer match
		for k, a := range g.automata {
			next.threads[k] = a.next(p.threads[k], func(set int) bool { return c.in[k][set] })
			dead = dead || next.threads[k] == nil && !g.parts[k].not
			g.spend(1 + len(next.threads[k]))
		}
		if dead {
			continue
		}
		to := g.add(next)
		if sets[to] == nil {
			order = append(order, to)
		}
		sets[to] = append(sets[to], c.set...)
	}
	for _, to := range order {
		joined := invert(invert(sets[to])) // sorted, and without adjacent spans
		list = append(list, way{joined, to})
	}
	return list
}

// charClass is a set of characters that no set of the automata distinguishes.
type charClass struct {
	set []span
	in  [][]bool // by automaton and set
}

// classesOf divides all characters into classes. The characters of a class are in the same sets of all automata, so an
// automaton cannot tell them apart.
func classesOf(automata []*steps) (list []charClass) {
	// All characters from one bound to before the next are in the same sets.
	bounds := []rune{0}
	for _, a := range automata {
		for _, set := range a.sets {
			for _, s := range set {
				bounds = append(bounds, s.low, s.high+1)
			}
		}
	}
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	known := map[string]int{} // the index of the class of these sets
	for i, low := range bounds {
		high := rune(utf8.MaxRune)
		if i+1 < len(bounds) {
			high = bounds[i+1] - 1
		}
		if low > utf8.MaxRune {
			break
		}
		c := charClass{in: make([][]bool, len(automata))}
		var key []byte
		for k, a := range automata {
			for _, set := range a.sets {
				in := hasChar(set, low)
				c.in[k] = append(c.in[k], in)
				key = strconv.AppendBool(key, in)
			}
		}
		class, ok := known[string(key)]
		if !ok {
			class = len(list)
			known[string(key)] = class
			list = append(list, c)
		}
		list[class].set = append(list[class].set, span{low, high})
	}
	return list
}

// hasChar reports whether a character is in a set of sorted spans.
func hasChar(set []span, c rune) bool {
	_, ok := slices.BinarySearchFunc(set, c, func(s span, c rune) int {
		switch {
		case s.high < c:
			return -1
		case s.low > c:
			return 1
		}
		return 0
	})
	return ok
}

// strings returns the expression of a language's strings, as encoded in JSON without quotes.
func (s *schemas) strings(l language, where string) *expr {
	places, err := l.graph(s.spend)
	if s.err != nil || err != nil {
		s.leave(where, "pattern", fmt.Sprint(err))
		return repeat(s.char(), 0, -1)
	}
	e := &expr{op: opGraph}
	for _, p := range places {
		from := graphPlace{ends: p.ends}
		for _, w := range p.ways {
			x := s.encoded(w.set)
			from.ways = append(from.ways, graphWay{x, w.to})
		}
		e.graph = append(e.graph, from)
	}
	return e
}

// encoded returns an expression for one character of a set as it is written within a JSON string. A set with many
// escapes is a rule, as it takes many nodes.
func (s *schemas) encoded(set []span) *expr {
	x := inString(set)
	if slices.Equal(set, []span{{0, utf8.MaxRune}}) {
		return s.char()
	}
	if x.op == opAlt && len(x.list) > 6 || x.op == opSet && len(x.set) > 8 {
		return s.add(fmt.Sprint("characters ", set), func() *expr { return x })
	}
	return x
}
