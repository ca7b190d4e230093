package chat

import (
	"slices"
	"strings"
	"unicode"
)

// wordWrap breaks the lines of a string at a maximum width, as Python's module textwrap does. It drops the white space
// at a break.
func wordWrap(r *run, x value, a args) value {
	width := a.int(0, "width", 79)
	if width <= 0 {
		fail("wordwrap to %d characters: want 1 or more", width)
	}
	w := wrapper{r: r, width: width, long: truth(a.or(1, "break_long_words", true)),
		hyphens: truth(a.or(3, "break_on_hyphens", true))}
	by := text("\n")
	if wrap := a.or(2, "wrapstring", nil); wrap != nil {
		by = printed(r, wrap)
	}
	var all []value
	for _, l := range lines(r, printed(r, x)) {
		all = append(all, joined(r, iterate(r, texts(w.wrap(l))), by))
	}
	return joined(r, all, by)
}

// wrapper holds the options of wordWrap.
type wrapper struct {
	r             *run
	width         int
	long, hyphens bool // whether to break words longer than a line, and whether to break words at hyphens
}

// wrap breaks one line.
func (w *wrapper) wrap(s str) (all []str) {
	chunks := w.chunks(s)
	for len(chunks) > 0 {
		if len(all) > 0 && isSpaces(chunks[0]) {
			chunks = chunks[1:]
		}
		var parts []str
		room := w.width
		for len(chunks) > 0 && len(chunks[0]) <= room {
			room -= len(chunks[0])
			parts, chunks = append(parts, chunks[0]), chunks[1:]
		}
		if len(chunks) > 0 && len(chunks[0]) > w.width {
			switch {
			case w.long: // as in Python, a full line takes no part of the word, and keeps its trailing white space
				n := w.breakAt(chunks[0], room)
				parts, chunks[0] = append(parts, chunks[0][:n]), chunks[0][n:]
			case len(parts) == 0:
				parts, chunks = append(parts, chunks[0]), chunks[1:]
			}
		}
		if n := len(parts); n > 0 && isSpaces(parts[n-1]) {
			parts = parts[:n-1]
		}
		w.r.step(len(parts))
		if len(parts) > 0 {
			all = append(all, slices.Concat(parts...))
		}
	}
	return all
}

// breakAt returns the position at which to break a word that does not fit into room characters. With break_on_hyphens,
// it is after the last hyphen that fits and has another character before it.
func (w *wrapper) breakAt(word str, room int) int {
	if !w.hyphens {
		return room
	}
	for i := room - 1; i > 0; i-- {
		if unmarked(word[i]) == '-' {
			if slices.ContainsFunc(word[:i], func(c rune) bool { return unmarked(c) != '-' }) {
				return i + 1
			}
			break
		}
	}
	return room
}

func isSpaces(s str) bool {
	return !slices.ContainsFunc(s, func(c rune) bool { return !unicode.IsSpace(unmarked(c)) })
}

// chunks splits a string into white space and words. It splits words at hyphens between letters, and around dashes of
// two or more hyphens.
func (w *wrapper) chunks(s str) (all []str) {
	w.r.step(len(s))
	dashes := make([]int, len(s)+1) // number of hyphens from a position on
	for i := len(s) - 1; i >= 0; i-- {
		if unmarked(s[i]) == '-' {
			dashes[i] = dashes[i+1] + 1
		}
	}
	at := func(i int) rune {
		if i < 0 || i >= len(s) {
			return 0
		}
		return unmarked(s[i])
	}
	for i := 0; i < len(s); {
		end := i + 1 // of the chunk that begins at i
		switch dash := dashes[i]; {
		case isBlank(at(i)):
			for end < len(s) && isBlank(at(end)) {
				end++
			}
		case w.hyphens && dash >= 2 && isWord(at(i+dash)) && mayEnd(at(i-1)): // a dash
			end = i + dash
		default: // a word
			for end < len(s) && !isBlank(at(end)) && !(w.hyphens && ends(at, i, end, dashes[end])) {
				end++
			}
		}
		all, i = append(all, s[i:end]), end
	}
	return all
}

// ends reports whether a word that begins at from may be split at n; dash is the number of hyphens at n.
func ends(at func(int) rune, from, n, dash int) bool {
	if n-2 >= from && at(n-1) == '-' { // a hyphen after two letters, or after a letter between hyphens
		before := isLetter(at(n-2)) && (isLetter(at(n-3)) || at(n-3) == '-' && isLetter(at(n-4)))
		after := isLetter(at(n)) && (isLetter(at(n+1)) || at(n+1) == '-' && isLetter(at(n+2)))
		if before && after {
			return true
		}
	}
	return dash >= 2 && isWord(at(n+dash)) && mayEnd(at(n-1))
}

func isBlank(c rune) bool { return c != 0 && strings.ContainsRune("\t\n\v\f\r ", c) }

func isLetter(c rune) bool { return isWord(c) && !unicode.IsDigit(c) }

// mayEnd reports whether a word may be split between the character c and a dash.
func mayEnd(c rune) bool { return isWord(c) || strings.ContainsRune("!\"'&.,?", c) && c != 0 }
