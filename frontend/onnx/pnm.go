package onnx

import (
	"bufio"
	"fmt"
	pictures "image"
	"image/color"
	"io"
)

// init registers the portable formats of Netpbm: bitmaps (PBM, P1 and P4), grey pictures (PGM, P2 and P5) and coloured
// pictures (PPM, P3 and P6). P1 to P3 have numbers as text, and P4 to P6 as bytes. See Netpbm's manual pages pbm, pgm
// and ppm.
func init() {
	for kind := byte('1'); kind <= '6'; kind++ {
		pictures.RegisterFormat("pnm", "P"+string(kind), decodePNM, func(r io.Reader) (pictures.Config, error) {
			p, err := readPNMHeader(r)
			return pictures.Config{ColorModel: color.NRGBAModel, Width: p.width, Height: p.height}, err
		})
	}
}

// pnm is a picture of Netpbm while it is read.
type pnm struct {
	*bufio.Reader
	kind          byte // '1' to '6'
	width, height int
	most          int  // the value of the brightest pixels
	bits          byte // of kind '4': the current byte, eight pixels from the highest bit to the lowest
}

// readPNMHeader reads the header of a picture in a Netpbm format: its kind, extents in pixels, and largest value.
// Bitmaps have no largest value.
func readPNMHeader(r io.Reader) (p *pnm, err error) {
	p = &pnm{Reader: bufio.NewReader(r), most: 1}
	magic := [2]byte{}
	if _, err = io.ReadFull(p, magic[:]); err != nil {
		return p, err
	}
	p.kind = magic[1]
	fields := []*int{&p.width, &p.height, &p.most}
	if p.bitmap() {
		fields = fields[:2]
	}
	for _, field := range fields {
		if *field, err = p.number(maxPixels); err != nil {
			return p, err
		}
	}
	// A value has at most two bytes. The division keeps width*height from overflowing.
	if p.width < 1 || p.height < 1 || p.width > maxPixels/p.height || p.most < 1 || p.most > 0xffff {
		err = fmt.Errorf("a pnm picture of %d times %d pixels with values to %d", p.width, p.height, p.most)
	}
	return p, err
}

func (p *pnm) bitmap() bool   { return p.kind == '1' || p.kind == '4' }
func (p *pnm) coloured() bool { return p.kind == '3' || p.kind == '6' }

// number skips white space and comments, and reads a decimal number of at most limit. It also reads the character after
// the number, except after a bit (limit 1), because bits may follow each other without spaces.
func (p *pnm) number(limit int) (n int, err error) {
	for digits, comment := false, false; ; {
		c, err := p.ReadByte()
		switch {
		case err == io.EOF && digits:
			return n, nil
		case err != nil:
			return 0, err
		case comment:
			comment = c != '\n'
		case c >= '0' && c <= '9':
			n, digits = 10*n+int(c-'0'), true
			if n > limit {
				return 0, fmt.Errorf("a number of a pnm picture is above %d", limit)
			}
			if limit == 1 {
				return n, nil
			}
		case digits:
			return n, nil
		case c == '#':
			comment = true
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			return 0, fmt.Errorf("byte %q in the numbers of a pnm picture", c)
		}
	}
}

// sample reads the value of a channel, 0 to most, as text or as one or two bytes.
func (p *pnm) sample() (n int, err error) {
	if p.kind < '4' { // these kinds have numbers as text
		return p.number(p.most)
	}
	for most := p.most; most > 0 && err == nil; most >>= 8 { // a byte for each byte of most, the highest first
		var c byte
		c, err = p.ReadByte()
		n = n<<8 | int(c)
	}
	return n, err
}

// pixel reads the pixel in column x: its channels, from 0 to most. Pixels must be read in order.
func (p *pnm) pixel(x int) (v [3]int, err error) {
	switch {
	case p.coloured():
		for i := range v {
			if v[i], err = p.sample(); err != nil {
				return v, err
			}
		}
		return v, nil
	case p.kind == '4':
		if x%8 == 0 {
			p.bits, err = p.ReadByte()
		}
		v[0] = int(p.bits >> (7 - x%8) & 1)
	default:
		v[0], err = p.sample()
	}
	if p.bitmap() { // 1 is black
		v[0] = 1 - v[0]
	}
	return [3]int{v[0], v[0], v[0]}, err
}

// decodePNM reads a picture of Netpbm.
func decodePNM(r io.Reader) (pictures.Image, error) {
	p, err := readPNMHeader(r)
	if err != nil {
		return nil, err
	}
	out := pictures.NewNRGBA(pictures.Rect(0, 0, p.width, p.height))
	for y := range p.height {
		for x := range p.width {
			v, err := p.pixel(x)
			if err != nil {
				return nil, fmt.Errorf("row %d of a pnm picture: %w", y, err)
			}
			at := out.Pix[out.PixOffset(x, y):]
			for i, n := range v { // from 0 to most, scaled to 0 to 255 and rounded
				at[i] = byte((min(n, p.most)*255 + p.most/2) / p.most)
			}
			at[3] = 255
		}
	}
	return out, nil
}
