package vision

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// orientation returns how the camera was held: the value 1 to 8 of tag 0x112 in a JPEG's Exif data. It returns 1,
// upright, if the file does not say.
func orientation(data []byte, format string) int {
	if format != "jpeg" {
		return 1
	}
	for at := 2; at+4 <= len(data) && data[at] == 0xff && data[at+1] != 0xda; { // segments before the pixels
		size := int(binary.BigEndian.Uint16(data[at+2:]))
		if at+2+size > len(data) || size < 2 {
			break
		}
		body := data[at+4 : at+2+size]
		if exif, ok := bytes.CutPrefix(body, []byte("Exif\x00\x00")); ok && data[at+1] == 0xe1 {
			return exifOrientation(exif)
		}
		at += 2 + size
	}
	return 1
}

// exifOrientation returns the orientation, 1 to 8, from the first directory of Exif data, which is a TIFF file. It
// returns 1, the normal orientation, if the data has none or is damaged.
func exifOrientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.BigEndian
	// A TIFF file begins with II (little endian) or MM, and has its first directory's offset at byte 4.
	if tiff[0] == 'I' {
		order = binary.LittleEndian
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 1
	}
	// A directory has the number of its entries, and then 12 bytes for each: tag, type, count and value.
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			break
		}
		if order.Uint16(entries) == 0x112 {
			if v := int(order.Uint16(entries[8:])); v >= 1 && v <= 8 {
				return v
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}

// turned returns the picture upright. orientation is Exif's number, from 1 to 8: 1 is upright, and the others are
// turned, mirrored or both.
func (p *Picture) turned(orientation int) *Picture {
	if orientation == 1 {
		return p
	}
	transposed := orientation >= 5 // rows become columns
	fromRight := slices.Contains([]int{2, 3, 7, 8}, orientation)
	fromBelow := slices.Contains([]int{3, 4, 6, 7}, orientation)
	up := &Picture{Width: p.Width, Height: p.Height, Pixels: make([]byte, len(p.Pixels))}
	if transposed {
		up.Width, up.Height = p.Height, p.Width
	}
	for y := range up.Height {
		for x := range up.Width {
			column, row := x, y
			if transposed {
				column, row = y, x
			}
			if fromRight {
				column = p.Width - 1 - column
			}
			if fromBelow {
				row = p.Height - 1 - row
			}
			copy(up.Pixels[3*(y*up.Width+x):][:3], p.Pixels[3*(row*p.Width+column):])
		}
	}
	return up
}
