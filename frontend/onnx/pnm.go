package onnx

import (
	"bufio"
	"fmt"
	pictures "image"
	"image/color"
	"io"
)

// init registers the portable formats of Netpbm, of which P1 to P3 have numbers as text, and P4 to P6 as bytes: bitmaps
// (PBM), grey pictures (PGM) and coloured ones (PPM). See Netpbm's manual pages pbm, pgm and ppm.
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
	most          int // the value of the brightest pixels
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

func (p *pnm) bitmap() bool { return p.kind == '1' || p.kind == '4' }

// number reads a decimal number up to a limit, after white space and comments, and the character after it. A number
// that another digit would take past the limit needs no character after it.
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
			if n, digits = 10*n+int(c-'0'), true; n > limit {
				return 0, fmt.Errorf("a number of a pnm picture is above %d", limit)
			}
			if limit == 1 {
				return n, nil // bits may follow each other without spaces
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
	for most := p.most; most > 0 && err == nil; most >>= 8 {
		var c byte
		c, err = p.ReadByte()
		n = n<<8 | int(c)
	}
	return n, err
}

// decodePNM reads a picture of Netpbm.
func decodePNM(r io.Reader) (pictures.Image, error) {
	p, err := readPNMHeader(r)
	if err != nil {
		return nil, err
	}
	out := pictures.NewNRGBA(pictures.Rect(0, 0, p.width, p.height))
	for y := range p.height {
		bits := 0 // the current byte of a bitmap: eight pixels, the first one in the highest bit
		for x := range p.width {
			var v [3]int
			switch {
			case p.kind == '4':
				if x%8 == 0 {
					var c byte
					c, err = p.ReadByte()
					bits = int(c)
				}
				v[0] = bits >> (7 - x%8) & 1
			case p.kind == '3' || p.kind == '6':
				for i := range v {
					if err == nil {
						v[i], err = p.sample()
					}
				}
			default:
				v[0], err = p.sample()
			}
			if err != nil {
				return nil, fmt.Errorf("row %d of a pnm picture: %w", y, err)
			}
			if p.bitmap() { // 1 is black
				v[0] = 1 - v[0]
			}
			if p.kind != '3' && p.kind != '6' {
				v[1], v[2] = v[0], v[0]
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
