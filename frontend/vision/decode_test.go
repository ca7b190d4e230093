package vision_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/vision"
	"github.com/vkc-go/vkc/ir"
	"golang.org/x/image/bmp"
)

// corners is a picture with another color in each quarter.
func corners(width, height int, alpha uint8) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			c := color.NRGBA{0, 0, 255, alpha}
			if x < width/2 {
				c.R = 255
			}
			if y < height/2 {
				c.G = 255
			}
			m.SetNRGBA(x, y, c)
		}
	}
	return m
}

// at returns the levels of a pixel.
func at(p *vision.Picture, x, y int) [3]byte { return [3]byte(p.Pixels[3*(y*p.Width+x):]) }

func near(a, b [3]byte) bool {
	for i := range a {
		if max(a[i], b[i])-min(a[i], b[i]) > 24 {
			return false
		}
	}
	return true
}

// losslessWebP writes the picture of corners, without transforms and with one bit for each of red and green.
func losslessWebP(b *bytes.Buffer, width, height int) error {
	var bits []byte
	put := func(v, n int) {
		for i := range n {
			bits = append(bits, byte(v>>i&1))
		}
	}
	put(0x2f, 8)
	put(width-1, 14)
	put(height-1, 14)
	// No alpha, version 0, no transform, no cache of colors, one group of codes.
	put(0, 1+3+3)
	// Codes of green, red, blue, alpha and distances.
	codes := [][]int{{0, 255}, {0, 255}, {255}, {255}, {0}}
	for _, symbols := range codes {
		put(1|(len(symbols)-1)<<1|1<<2, 3)
		for _, s := range symbols {
			put(s, 8)
		}
	}
	for y := range height {
		for x := range width {
			for _, high := range []bool{y < height/2, x < width/2} {
				put(map[bool]int{true: 1}[high], 1)
			}
		}
	}
	data := make([]byte, (len(bits)+15)/16*2)
	for i, bit := range bits {
		data[i/8] |= bit << (i % 8)
	}
	b.WriteString("RIFF")
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(data)+12)))
	b.WriteString("WEBPVP8L")
	b.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(data))))
	b.Write(data)
	return nil
}

// TestDecode: every format, transparent or not, gives the colors of the quarters.
func TestDecode(t *testing.T) {
	encode := map[string]func(*bytes.Buffer) error{
		"png":         func(b *bytes.Buffer) error { return png.Encode(b, corners(64, 32, 255)) },
		"transparent": func(b *bytes.Buffer) error { return png.Encode(b, corners(64, 32, 100)) },
		"jpeg":        func(b *bytes.Buffer) error { return jpeg.Encode(b, corners(64, 32, 255), &jpeg.Options{Quality: 95}) },
		"gif":         func(b *bytes.Buffer) error { return gif.Encode(b, corners(64, 32, 255), nil) },
		"bmp":         func(b *bytes.Buffer) error { return bmp.Encode(b, corners(64, 32, 255)) },
		"webp":        func(b *bytes.Buffer) error { return losslessWebP(b, 64, 32) },
		"gray": func(b *bytes.Buffer) error {
			return png.Encode(b, image.NewGray16(image.Rect(0, 0, 64, 32)))
		},
	}
	for name, f := range encode {
		var b bytes.Buffer
		if err := f(&b); err != nil {
			t.Fatal(err)
		}
		p, err := vision.Decode(b.Bytes())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "gray" {
			continue
		}
		if p.Width != 64 || p.Height != 32 || !near(at(p, 5, 5), [3]byte{255, 255, 255}) ||
			!near(at(p, 60, 5), [3]byte{0, 255, 255}) || !near(at(p, 5, 28), [3]byte{255, 0, 255}) ||
			!near(at(p, 60, 28), [3]byte{0, 0, 255}) {
			t.Errorf("%s: %d*%d, %v %v", name, p.Width, p.Height, at(p, 5, 5), at(p, 60, 28))
		}
	}
}

// TestOrientation: a photo is upright, however the camera was held.
func TestOrientation(t *testing.T) {
	topLeft := map[uint16][3]byte{1: {255, 255, 255}, 2: {0, 255, 255}, 3: {0, 0, 255}, 4: {255, 0, 255},
		5: {255, 255, 255}, 6: {255, 0, 255}, 7: {0, 0, 255}, 8: {0, 255, 255}}
	bottomLeft := map[uint16][3]byte{1: {255, 0, 255}, 2: {0, 0, 255}, 3: {0, 255, 255}, 4: {255, 255, 255},
		5: {0, 255, 255}, 6: {0, 0, 255}, 7: {255, 0, 255}, 8: {255, 255, 255}}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, corners(64, 32, 255), &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	for _, order := range []binary.AppendByteOrder{binary.BigEndian, binary.LittleEndian} {
		for o := uint16(1); o <= 8; o++ {
			tiff := []byte("MM\x00*")
			if order == binary.AppendByteOrder(binary.LittleEndian) {
				tiff = []byte("II*\x00")
			}
			tiff = order.AppendUint16(order.AppendUint32(tiff, 8), 1)
			tiff = order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, 0x112), 3), 1)
			tiff = order.AppendUint32(order.AppendUint16(order.AppendUint16(tiff, o), 0), 0)
			segment := append([]byte("Exif\x00\x00"), tiff...)
			segment = append(binary.BigEndian.AppendUint16([]byte{0xff, 0xe1}, uint16(len(segment)+2)), segment...)
			p, err := vision.Decode(slices.Concat(b.Bytes()[:2], segment, b.Bytes()[2:]))
			if err != nil {
				t.Fatal(err)
			}
			if tall := p.Height > p.Width; tall != (o >= 5) || !near(at(p, 4, 4), topLeft[o]) ||
				!near(at(p, 4, p.Height-4), bottomLeft[o]) {
				t.Errorf("orientation %d: %d*%d, %v above %v", o, p.Width, p.Height, at(p, 4, 4),
					at(p, 4, p.Height-4))
			}
		}
	}
}

// TestDecodeRefuses: hostile and foreign files.
func TestDecodeRefuses(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, corners(64, 32, 255)); err != nil {
		t.Fatal(err)
	}
	huge := slices.Clone(b.Bytes()) // the width and the height follow 16 bytes
	binary.BigEndian.PutUint32(huge[16:], 1<<16)
	binary.BigEndian.PutUint32(huge[20:], 1<<16)
	crc := binary.BigEndian.AppendUint32(nil, crcOf(huge[12:29]))
	copy(huge[29:], crc)
	extended := func(flags byte, size uint32) []byte { // a WebP with a canvas
		head := []byte("RIFF\x1e\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00")
		side := binary.LittleEndian.AppendUint32(nil, size-1)[:3]
		return append(slices.Concat(head, []byte{flags, 0, 0, 0}, side, side), make([]byte, 8)...)
	}
	moving, wide := extended(2, 16), extended(0, 1<<14)
	for _, tt := range []struct {
		data []byte
		want string
	}{
		{nil, "unknown format"},
		{[]byte("MZ\x00\x00"), `has an unknown format, its first bytes are "MZ`},
		{[]byte("BM\x00\x00\x00\x00\x00\x00\x00\x00\x36"), "is damaged: "},
		{[]byte("RIFF....AVI LIST"), "want PNG, JPEG, GIF, WebP or BMP"},
		{moving, "is damaged: "},
		{wide, "has 16384*16384 pixels"},
		{b.Bytes()[:len(b.Bytes())/2], "is damaged: png: "},
		{huge, "has 65536*65536 pixels: want 1 to 67108864 in all; make it smaller"},
		{make([]byte, vision.MaxBytes+1), "has 33554433 bytes: want at most 33554432"},
	} {
		_, err := vision.Decode(tt.data)
		if wrong := (*vision.PictureError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}

func crcOf(data []byte) uint32 {
	crc := ^uint32(0)
	for _, b := range data {
		crc ^= uint32(b)
		for range 8 {
			crc = crc>>1 ^ 0xedb88320*(crc&1)
		}
	}
	return ^crc
}

// TestHalved: large pictures become smaller before they are resized.
func TestHalved(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, corners(4099, 20, 255)); err != nil {
		t.Fatal(err)
	}
	p, err := vision.Decode(b.Bytes())
	if err != nil || p.Width != 2050 || p.Height != 10 || at(p, 3, 3) != [3]byte{255, 255, 255} {
		t.Errorf("%d*%d, %v", p.Width, p.Height, err)
	}
}

// TestFit: the sizes of Qwen's smart_resize, and bounds.
func TestFit(t *testing.T) {
	many := vision.Config{Projector: "qwen2vl_merger", PatchSize: 14, Merge: 2, MinPixels: 3136, MaxPixels: 12845056}
	one := vision.Config{Projector: "gemma3", PatchSize: 14, ImageSize: 896, Merge: 4}
	for _, tt := range []struct {
		c                    vision.Config
		width, height, most  int
		wantRows, wantColumn int // of rows of the tower
		err                  string
	}{
		{many, 1000, 700, 16384, 25, 36, ""},
		{many, 20, 20, 16384, 2, 2, ""},
		{many, 4000, 3000, 16384, 107, 143, ""},
		{many, 4000, 4000, 256, 16, 16, ""},
		{many, 4000, 40, 16, 1, 16, ""},
		{many, 10, 300, 1, 1, 1, ""},
		{many, 4000, 10, 64, 0, 0, "one side at most 200 times the other"},
		{many, 0, 10, 64, 0, 0, "the picture has 0*10 pixels"},
		{one, 10, 300, 256, 16, 16, ""},
		{one, 10, 300, 255, 0, 0, "the picture takes 256 tokens, and there is room for 255"},
	} {
		g, err := tt.c.Fit(tt.width, tt.height, tt.most)
		merged := tt.c.Merged(g)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%d*%d: error %v, want %q", tt.width, tt.height, err, tt.err)
			}
		} else if err != nil || merged.Rows != tt.wantRows || merged.Columns != tt.wantColumn {
			t.Errorf("%d*%d for %d: %v, %v; want %d*%d", tt.width, tt.height, tt.most, merged, err, tt.wantRows,
				tt.wantColumn)
		}
	}
}

// TestRefuses: files that are no tower, or another.
func TestRefuses(t *testing.T) {
	set := func(key string, v any) func(*gguf.Writer) error {
		return func(w *gguf.Writer) error { return w.Set(key, v) }
	}
	add := func(name string, dims ...int) func(*gguf.Writer) error {
		return func(w *gguf.Writer) error {
			d, err := ir.NewData(ir.F32, dims...)
			if err != nil {
				return err
			}
			return w.Add(name, d)
		}
	}
	for _, tt := range []struct {
		change func(*gguf.Writer) error
		want   string
	}{
		{set("general.architecture", "llama"), `general.architecture is "llama": want clip`},
		{set("clip.has_vision_encoder", false), "the file has no vision tower"},
		{set("clip.projector_type", "resampler"), `projector "resampler" is not supported: want one of gemma3, idefics3, mlp`},
		{set("clip.vision.attention.head_count", uint32(3)), "32 elements in 3 heads"},
		{set("clip.vision.attention.head_count", uint32(0)), "is 0: want 1 to"},
		{set("clip.vision.attention.head_count", uint32(16)), "heads of 2 elements rotate in two directions"},
		{set("clip.vision.block_count", uint32(1<<20)), "want a vision tower"},
		{set("clip.vision.embedding_length", uint32(64)), `weight "v.patch_embd.weight" is [32,3,4,4]: want [64,3,4,4]`},
		{set("clip.vision.image_mean", []float32{1, 2}), "has 2 numbers: want 3"},
		{set("clip.vision.image_std", []float32{1, 0, 1}), "deviations above 0"},
		{set("clip.vision.image_max_pixels", uint32(1)), "pictures of 3136 to 1 pixels"},
		{set("clip.vision.is_deepstack_layers", []bool{false, false, true}), "deepstack layer 2: there are 2 layers"},
		{set("clip.vision.feature_layer", []uint32{3}), "is 3: want 1 to 2"},
		{add("v.position_embd.weight", 3, 32), "the table of positions is [3,32]: want a square"},
		{add("v.blk.0.more.weight", 3), `weight "v.blk.0.more.weight": vkc does not know this weight in a tower of 2 layers`},
	} {
		w := readGolden(t, "qwen2vl").writer(t)
		if err := tt.change(w); err != nil {
			t.Fatal(err)
		}
		if _, err := vision.FromGGUF(open(t, w)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("error %v, want %q", err, tt.want)
		}
	}
}
