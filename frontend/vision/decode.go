package vision

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif"  // formats that Decode reads
	_ "image/jpeg" // likewise
	_ "image/png"  // likewise

	_ "golang.org/x/image/bmp"  // likewise
	_ "golang.org/x/image/webp" // likewise
)

// Bounds of pictures.
const (
	MaxBytes  = 32 << 20 // of a picture's file
	maxPixels = 1 << 26  // of a picture in a file
	maxSide   = 4096     // of a decoded picture, which is made smaller
)

// Picture is a decoded picture: a byte each for red, green and blue of each pixel, row by row.
type Picture struct {
	Width, Height int
	Pixels        []byte
}

// A PictureError says why a picture cannot be read.
type PictureError struct{ what string }

func (e *PictureError) Error() string { return "the picture " + e.what }

func wrongPicture(format string, args ...any) error {
	return &PictureError{fmt.Sprintf(format, args...)}
}

// Decode reads a PNG, JPEG, GIF, WebP or BMP picture. Of a GIF the first frame counts, and a moving WebP is an error.
// Transparency is ignored. A picture with a side of more than 4096 pixels is halved until it has none. Decode returns a
// *PictureError for a picture that is too large or damaged, or in another format.
func Decode(data []byte) (*Picture, error) {
	if len(data) > MaxBytes {
		return nil, wrongPicture("has %d bytes: want at most %d", len(data), MaxBytes)
	}
	head, format, err := image.DecodeConfig(bytes.NewReader(data))
	switch {
	case errors.Is(err, image.ErrFormat):
		return nil, wrongPicture("has an unknown format, its first bytes are %.8q: want PNG, JPEG, GIF, WebP or BMP",
			data)
	case err != nil:
		return nil, wrongPicture("is damaged: %v", err)
	case head.Width < 1 || head.Height < 1 || head.Width > maxPixels/head.Height:
		return nil, wrongPicture("has %d*%d pixels: want 1 to %d in all; make it smaller", head.Width, head.Height,
			maxPixels)
	}
	decoded, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, wrongPicture("is damaged: %v", err)
	}
	bounds := decoded.Bounds()
	if bounds.Dx() != head.Width || bounds.Dy() != head.Height { // a GIF's frame
		if bounds.Empty() || bounds.Dx() > maxPixels/bounds.Dy() {
			return nil, wrongPicture("has a frame of %d*%d pixels", bounds.Dx(), bounds.Dy())
		}
	}
	p := &Picture{Width: bounds.Dx(), Height: bounds.Dy(), Pixels: make([]byte, 0, 3*bounds.Dx()*bounds.Dy())}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			r, g, b := levels(decoded, x, y)
			p.Pixels = append(p.Pixels, r, g, b)
		}
	}
	p = p.turned(orientation(data, format))
	for p.Width > maxSide || p.Height > maxSide {
		p = p.halved()
	}
	return p, nil
}

// levels returns a pixel's levels without its transparency.
func levels(m image.Image, x, y int) (r, g, b byte) {
	if m, ok := m.(*image.NRGBA); ok {
		at := m.PixOffset(x, y)
		return m.Pix[at], m.Pix[at+1], m.Pix[at+2]
	}
	red, green, blue, alpha := m.At(x, y).RGBA() // of 16 bits; the colors are multiplied by alpha
	if alpha == 0 {
		return 0, 0, 0
	}
	return byte(red * 0xff / alpha), byte(green * 0xff / alpha), byte(blue * 0xff / alpha)
}

// halved returns the picture with half the pixels each way, rounded up: each is the rounded mean of four. At an odd
// edge the last row or column counts twice.
func (p *Picture) halved() *Picture {
	half := &Picture{Width: (p.Width + 1) / 2, Height: (p.Height + 1) / 2}
	half.Pixels = make([]byte, 3*half.Width*half.Height)
	for y := range half.Height {
		for x := range half.Width {
			for c := range 3 {
				sum := 2 // rounds the division by 4
				for i := range 4 {
					row, column := min(2*y+i/2, p.Height-1), min(2*x+i%2, p.Width-1)
					sum += int(p.Pixels[3*(row*p.Width+column)+c])
				}
				half.Pixels[3*(y*half.Width+x)+c] = byte(sum / 4)
			}
		}
	}
	return half
}
