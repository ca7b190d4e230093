package onnx

import (
	"bytes"
	pictures "image"
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

// imageDecoder builds ImageDecoder, of a picture that is known when the graph is built: a file of PNG, JPEG,
// GIF, WebP, BMP or TIFF, as bytes [height, width, channels].
func imageDecoder(c *call) []*value {
	d := c.constant(0)
	if d.DType != ir.U8 || len(d.Dims) != 1 {
		c.fail("its input is %s: want the bytes of a file", d)
	}
	form := c.choice("pixel_format", "RGB", "BGR", "Grayscale")
	size, kind, err := pictures.DecodeConfig(bytes.NewReader(d.Bytes))
	if err != nil {
		c.fail("the picture is not PNG, JPEG, GIF, WebP, BMP or TIFF: %v", err)
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
	out := make([]byte, 0, r.Dx()*r.Dy()*channels)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			red, green, blue, _ := picture.At(x, y).RGBA()
			switch form {
			case "RGB":
				out = append(out, byte(red>>8), byte(green>>8), byte(blue>>8))
			case "BGR":
				out = append(out, byte(blue>>8), byte(green>>8), byte(red>>8))
			default: // luma of ITU-R BT.601
				out = append(out, byte((19595*(red>>8)+38470*(green>>8)+7471*(blue>>8)+1<<15)>>16))
			}
		}
	}
	return []*value{{data: &ir.Data{DType: ir.U8, Dims: []int{r.Dy(), r.Dx(), channels}, Bytes: out}}}
}
