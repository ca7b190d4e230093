package safetensors

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/ir"
)

// entry is the header's description of one tensor. begin and end are byte offsets from the start of the data.
type entry struct {
	name       string
	pos        int64 // in the file, for errors
	dtype      string
	shape      []int
	begin, end int64
}

// header is the parsed JSON header of a file.
type header struct {
	metadata map[string]string
	entries  []entry
}

// parser reads JSON token by token. Struct decoding by encoding/json would take the last of two equal keys and ignore
// unknown ones, so two readers could see different tensors in the same file.
type parser struct {
	src filefmt.Source
	dec *json.Decoder
}

// parseHeader parses the JSON header. src names the file in errors.
func parseHeader(src filefmt.Source, text []byte) (*header, error) {
	if len(text) == 0 || text[0] != '{' {
		return nil, src.Errorf(lengthBytes, "the header does not begin with '{'")
	}
	if !utf8.Valid(text) {
		return nil, src.Errorf(lengthBytes, "the header is not valid UTF-8")
	}
	p := &parser{src: src, dec: json.NewDecoder(bytes.NewReader(text))}
	p.dec.UseNumber()
	h := new(header)
	err := p.object("the header", func(key string) error {
		if key == metadataKey {
			return p.metadata(h)
		}
		e, err := p.entry(key)
		h.entries = append(h.entries, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	if t, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, p.errorf("the header has more text after its end, %v (%v)", t, err)
	}
	return h, nil
}

// errorf returns an error at the position of the last token.
func (p *parser) errorf(format string, args ...any) error {
	return p.src.Errorf(lengthBytes+p.dec.InputOffset(), format, args...)
}

// token returns the next token. what names, in errors, the value being read.
func (p *parser) token(what string) (json.Token, error) {
	t, err := p.dec.Token()
	if errors.Is(err, io.EOF) {
		return nil, p.errorf("the header ends inside %s", what)
	}
	if err != nil {
		return nil, p.errorf("%s: %v", what, err)
	}
	return t, nil
}

// delim reads one of the delimiters { } [ ], which must be want.
func (p *parser) delim(want json.Delim, what string) error {
	t, err := p.token(what)
	if err != nil {
		return err
	}
	if t != want {
		return p.errorf("%s has %v: want %v", what, describe(t), want)
	}
	return nil
}

// object reads an object and calls member for each key, which must read the value. A duplicate key is an error.
func (p *parser) object(what string, member func(key string) error) error {
	if err := p.delim('{', what); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for p.dec.More() {
		t, err := p.token(what)
		if err != nil {
			return err
		}
		key := t.(string) // the decoder accepts only strings as keys
		if seen[key] {
			return p.errorf("%s has %q twice", what, key)
		}
		seen[key] = true
		if err := member(key); err != nil {
			return err
		}
	}
	return p.delim('}', what)
}

// array reads an array of at most limit elements.
func (p *parser) array(limit int, what string) ([]int64, error) {
	if err := p.delim('[', what); err != nil {
		return nil, err
	}
	all := []int64{}
	for p.dec.More() {
		if len(all) == limit {
			return nil, p.errorf("%s has more than %d elements", what, limit)
		}
		v, err := p.size(what)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, p.delim(']', what)
}

// size reads an integer from 0 to the largest int64.
func (p *parser) size(what string) (int64, error) {
	t, err := p.token(what)
	if err != nil {
		return 0, err
	}
	n, ok := t.(json.Number)
	if !ok {
		return 0, p.errorf("%s has %s: want an integer", what, describe(t))
	}
	v, err := strconv.ParseUint(n.String(), 10, 63)
	if err != nil {
		return 0, p.errorf("%s has %s: want an integer from 0 to 2^63-1", what, n)
	}
	return int64(v), nil
}

// text reads a string.
func (p *parser) text(what string) (string, error) {
	t, err := p.token(what)
	if err != nil {
		return "", err
	}
	s, ok := t.(string)
	if !ok {
		return "", p.errorf("%s is %s: want a string", what, describe(t))
	}
	return s, nil
}

// metadata reads the object __metadata__, which maps strings to strings.
func (p *parser) metadata(h *header) error {
	h.metadata = make(map[string]string)
	return p.object(metadataKey, func(key string) (err error) {
		h.metadata[key], err = p.text(fmt.Sprintf("%s %q", metadataKey, key))
		return err
	})
}

// entry reads the entry of a tensor: {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}.
func (p *parser) entry(name string) (entry, error) {
	what := fmt.Sprintf("tensor %q", name)
	e := entry{name: name, pos: lengthBytes + p.dec.InputOffset()}
	members := 0
	err := p.object(what, func(key string) (err error) {
		members++
		switch key {
		case "dtype":
			e.dtype, err = p.text("the dtype of " + what)
		case "shape":
			e.shape, err = p.shape("the shape of " + what)
		case "data_offsets":
			e.begin, e.end, err = p.offsets("data_offsets of " + what)
		default:
			err = p.errorf("%s has %q: want dtype, shape and data_offsets only", what, key)
		}
		return err
	})
	if err == nil && members != 3 {
		err = p.errorf("%s has %d of dtype, shape and data_offsets: want all three", what, members)
	}
	return e, err
}

// shape reads the extents of a tensor.
func (p *parser) shape(what string) ([]int, error) {
	sizes, err := p.array(ir.MaxRank, what)
	if err != nil {
		return nil, err
	}
	dims := make([]int, len(sizes))
	for i, v := range sizes {
		if v > math.MaxInt {
			return nil, p.errorf("%s has %d: too large for this system", what, v)
		}
		dims[i] = int(v)
	}
	return dims, nil
}

// offsets reads the byte range of a tensor.
func (p *parser) offsets(what string) (begin, end int64, err error) {
	r, err := p.array(2, what)
	if err != nil {
		return 0, 0, err
	}
	if len(r) != 2 {
		return 0, 0, p.errorf("%s has %d elements: want 2", what, len(r))
	}
	return r[0], r[1], nil
}

// describe formats a token for an error.
func describe(t json.Token) string {
	switch t := t.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the string %q", t)
	default:
		return fmt.Sprint(t)
	}
}
