package onnx

import (
	"bytes"
	pictures "image"
	"image/color"
	_ "image/gif" // formats that ImageDecoder reads
	_ "image/jpeg"
	_ "image/png"

	"github.com/vkc-go/vkc/ir"
	_ "golang.org/x/image/bmp" // likewise
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
)

// maxPixels is the largest number of pixels of a decoded picture.
const maxPixels = 1 << 26

// imageDecoder builds ImageDecoder. Its input, the bytes of a file of PNG, JPEG, GIF, WebP, BMP, TIFF, PBM, PGM or PPM,
// must be known when the graph is built. The result is u8 [height, width, channels].
func imageDecoder(c *call) []*value {
	d := c.constant(0)
	if d.DType != ir.U8 || len(d.Dims) != 1 {
		c.fail("its input is %s: want the bytes of a file", d)
	}
	form := c.choice("pixel_format", "RGB", "BGR", "Grayscale")
	size, kind, err := pictures.DecodeConfig(bytes.NewReader(d.Bytes))
	if err != nil {
		c.fail("the picture is not PNG, JPEG, GIF, WebP, BMP, TIFF, PBM, PGM or PPM: %v", err)
	}
	if size.Width < 1 || size.Height < 1 || int64(size.Width)*int64(size.Height) > maxPixels {
		c.fail("the picture (%s) has %d times %d pixels: want at most %d", kind, size.Width, size.Height, maxPixels)
	}
	picture, _, err := pictures.Decode(bytes.NewReader(d.Bytes))
	if err != nil {
		c.fail("the picture, a %s: %v", kind, err)
	}
	channels := 3
	if form == "Grayscale" {
		channels = 1
	}
	r := picture.Bounds()
	at := func(x, y int) color.NRGBA { return color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA) }
	switch p := picture.(type) {
	// These formats have fewer samples of color, which decoders interpolate.
	case *pictures.YCbCr:
		at = smooth(p, kind == "webp")
	case *pictures.NYCbCrA:
		at = smooth(&p.YCbCr, kind == "webp")
	}
	out := make([]byte, 0, r.Dx()*r.Dy()*channels)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			p := at(x, y)
			switch form {
			case "RGB":
				out = append(out, p.R, p.G, p.B)
			case "BGR":
				out = append(out, p.B, p.G, p.R)
			default: // luma of ITU-R BT.601
				out = append(out, byte((19595*int(p.R)+38470*int(p.G)+7471*int(p.B)+1<<15)>>16))
			}
		}
	}
	return []*value{{data: &ir.Data{DType: ir.U8, Dims: []int{r.Dy(), r.Dx(), channels}, Bytes: out}}}
}

// smooth returns a function that returns a pixel of a picture with subsampled chroma. It interpolates chroma linearly,
// as ONNX defines it for JPEG: the four nearest samples have the weights 9/16, 3/16, 3/16 and 1/16. If webp is set,
// luma is from 16 to 235 and chroma from 16 to 240 (ITU-R BT.601). Otherwise all values are from 0 to 255 (JFIF).
func smooth(p *pictures.YCbCr, webp bool) func(x, y int) color.NRGBA {
	width, height := 1, 1 // of the pixels that share a chroma sample
	switch p.SubsampleRatio {
	case pictures.YCbCrSubsampleRatio420:
		width, height = 2, 2
	case pictures.YCbCrSubsampleRatio422:
		width = 2
	case pictures.YCbCrSubsampleRatio440:
		height = 2
	}
	// near returns a coordinate of a pixel in the second nearest sample to coordinate `at`. A sample covers `by`
	// pixels, and coordinates are from low to high-1. after is 1 if `at` is after the center of its own sample, and
	// otherwise 0.
	near := func(at, by, low, high int) (other, after int) {
		after = (at - low) % by
		return max(low, min(at-1+2*after, high-1)), after
	}
	return func(x, y int) color.NRGBA {
		x1, right := near(x, width, p.Rect.Min.X, p.Rect.Max.X)
		y1, below := near(y, height, p.Rect.Min.Y, p.Rect.Max.Y)
		if width == 1 {
			x1 = x
		}
		if height == 1 {
			y1 = y
		}
		half := 8 // of 16, for rounding; JPEG rounds a half up for one pixel and down for the next
		switch {
		case webp:
		case width == height:
			half -= right
		default:
			half = 4 + 4*(right+below)
		}
		chroma := func(plane []byte) int {
			at := func(x, y int) int { return int(plane[p.COffset(x, y)]) }
			return (9*at(x, y) + 3*at(x1, y) + 3*at(x, y1) + at(x1, y1) + half) / 16
		}
		luma, blue, red := int(p.Y[p.YOffset(x, y)]), chroma(p.Cb), chroma(p.Cr)
		channel := func(v int) byte { return byte(max(0, min(v, 255))) }
		if webp {
			luma = luma * 19077 >> 8
			return color.NRGBA{R: channel((luma + red*26149>>8 - 14234) >> 6),
				G: channel((luma - blue*6419>>8 - red*13320>>8 + 8708) >> 6),
				B: channel((luma + blue*33050>>8 - 17685) >> 6), A: 255}
		}
		blue, red = blue-128, red-128
		return color.NRGBA{R: channel(luma + (91881*red+1<<15)>>16),
			G: channel(luma + (-22554*blue-46802*red+1<<15)>>16),
			B: channel(luma + (116130*blue+1<<15)>>16), A: 255}
	}
}
