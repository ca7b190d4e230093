package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/atomicfile"
)

// output is a stream for people or programs. It keeps the first write error, so that a full disk makes the command
// fail even if the command ignores its own errors. It escapes control characters, because names come from files that
// may be hostile.
type output struct {
	w          *bufio.Writer
	incomplete []byte // the first bytes of an incomplete character
	firstErr   error
}

func newOutput(w io.Writer) *output { return &output{w: bufio.NewWriter(w)} }

// Write writes text, with escapes for control characters and invalid UTF-8. It keeps the first bytes of an incomplete
// character for the next call.
func (o *output) Write(text []byte) (int, error) {
	all := text
	if len(o.incomplete) > 0 {
		all = append(o.incomplete, text...)
	}
	for len(all) > 0 && utf8.FullRune(all) {
		r, n := utf8.DecodeRune(all)
		o.rune(r, all[:n])
		all = all[n:]
	}
	o.incomplete = append([]byte(nil), all...)
	return len(text), o.firstErr
}

// rune writes one character, or the escape for it.
func (o *output) rune(r rune, text []byte) {
	var err error
	switch {
	case r == utf8.RuneError && len(text) == 1:
		_, err = fmt.Fprintf(o.w, `\x%02x`, text[0])
	case r == '\n' || r == '\t' || strconv.IsPrint(r):
		_, err = o.w.Write(text)
	case r > 0xffff: // a surrogate pair, so that JSON stays JSON
		hi, lo := utf16.EncodeRune(r)
		_, err = fmt.Fprintf(o.w, `\u%04x\u%04x`, hi, lo)
	default:
		_, err = fmt.Fprintf(o.w, `\u%04x`, r)
	}
	if o.firstErr == nil {
		o.firstErr = err
	}
}

// Flush writes buffered output and returns the first error of all writes.
func (o *output) Flush() error {
	for _, b := range o.incomplete {
		fmt.Fprintf(o.w, `\x%02x`, b)
	}
	o.incomplete = nil
	if err := o.w.Flush(); o.firstErr == nil {
		o.firstErr = err
	}
	return o.firstErr
}

// writable returns an error if the file of a flag cannot be written. Commands call it before they do any work for the
// file. path is empty if the flag was not given.
func writable(flag, path string) error {
	if path == "" {
		return nil
	}
	if path == "-" {
		return usagef("--%s -: this would write a file named \"-\": give /dev/stdout for standard output, or ./-", flag)
	}
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return fmt.Errorf("--%s %s: this is a directory: name a file in it", flag, path)
	}
	st, err := os.Stat(filepath.Dir(path))
	if err == nil && !st.IsDir() {
		err = fmt.Errorf("%s is not a directory", filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("--%s %s: %w: make the directory first", flag, path, err)
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil // a device or a pipe: writing replaces nothing
	}
	f, err := atomicfile.Create(path, 0o666)
	if err != nil {
		return fmt.Errorf("--%s %s: %w: name a file in a directory where you may write", flag, path, err)
	}
	return f.Close()
}
