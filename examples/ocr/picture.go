package main

import (
	"encoding/base64"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/draw"
	"math"
	"net/http"
	"os"
	"strings"
)

// opaque returns a picture on a white background, with its corner at 0, 0.
func opaque(picture image.Image) *image.RGBA {
	b := picture.Bounds()
	out := image.NewRGBA(image.Rect(0, 0, b.Dx(), b.Dy()))
	draw.Draw(out, out.Rect, image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(out, out.Rect, picture, b.Min, draw.Over)
	return out
}

// sample resamples the contents of a box to w by h pixels, in planes of blue, green and red, the order of the models'
// training data. Each plane has h rows of stride values. A value is (v-mean)/deviation for v from 0 to 1.
func sample(to []float32, stride int, picture *image.RGBA, b box, w, h int, mean, deviation [3]float32) {
	size := picture.Rect.Size()
	for y := range h {
		for x := range w {
			// The centre of the pixel, relative to the centre of the picture's first pixel.
			at := b.at.plus(b.along.times((float64(x) + 0.5) / float64(w))).
				plus(b.down.times((float64(y) + 0.5) / float64(h))).plus(point{-0.5, -0.5})
			left := int(math.Floor(max(0, min(at.x, float64(size.X-1)))))
			top := int(math.Floor(max(0, min(at.y, float64(size.Y-1)))))
			right, bottom := min(left+1, size.X-1), min(top+1, size.Y-1)
			fx := float32(max(0, min(1, at.x-float64(left))))
			fy := float32(max(0, min(1, at.y-float64(top))))
			for c := range 3 { // 2-c, because RGBA has red first
				pixel := func(x, y int) float32 { return float32(picture.Pix[y*picture.Stride+4*x+2-c]) }
				v := (pixel(left, top)*(1-fx)+pixel(right, top)*fx)*(1-fy) +
					(pixel(left, bottom)*(1-fx)+pixel(right, bottom)*fx)*fy
				to[c*h*stride+y*stride+x] = (v/255 - mean[c]) / deviation[c]
			}
		}
	}
}

// writeSVG writes the picture, given as the content of its file, with the recognized text over it.
func writeSVG(path string, content []byte, bounds image.Rectangle, lines []line) error {
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif">`+"\n",
		bounds.Dx(), bounds.Dy())
	fmt.Fprintf(&s, `<image width="%d" height="%d" href="data:%s;base64,%s"/>`+"\n", bounds.Dx(), bounds.Dy(),
		http.DetectContentType(content), base64.StdEncoding.EncodeToString(content))
	for _, l := range lines {
		s.WriteString(`<polygon fill="white" fill-opacity="0.8" stroke="red" points="`)
		for _, p := range l.box.corners() {
			fmt.Fprintf(&s, "%.1f,%.1f ", p.x, p.y)
		}
		b := l.box
		across, size := b.along.length(), b.down.length()
		fmt.Fprintf(&s, `"/>`+"\n"+`<text transform="translate(%.1f %.1f) rotate(%.2f)" x="%.1f" y="%.1f" `+
			`textLength="%.1f" lengthAdjust="spacingAndGlyphs" font-size="%.1f" fill="red">%s</text>`+"\n",
			b.at.x, b.at.y, math.Atan2(b.along.y, b.along.x)*180/math.Pi, 0.04*across, 0.75*size, 0.92*across,
			0.7*size, html.EscapeString(l.text))
	}
	s.WriteString("</svg>\n")
	return os.WriteFile(path, []byte(s.String()), 0o644)
}
