package speech

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

// WAV reads a sound file as the samples that models hear: one channel at Rate, from -1 to 1. It keeps no more than a
// block of the file in memory.
type WAV struct {
	in       *bufio.Reader
	format   wavFormat
	rate     int
	channels int
	left     int64 // bytes of samples not read yet; negative means up to the end of the file
	size     int64 // the value of left at the start
	read     int64 // samples of a channel so far
	frame    []byte
	resample *resampler // nil if the file has Rate
}

// wavFormat is a row of the table of sample formats.
type wavFormat struct {
	tag   uint16 // in the chunk "fmt "
	bits  uint16
	value func(b []byte) float64
}

// Tags of sample formats.
const (
	tagIntegers   = 1
	tagFloats     = 3
	tagExtensible = 0xfffe // the tag is in a longer chunk
)

// wavFormats is the table of sample formats.
var wavFormats = []wavFormat{
	{tagIntegers, 8, func(b []byte) float64 { return (float64(b[0]) - 128) / (1 << 7) }},
	{tagIntegers, 16, func(b []byte) float64 { return float64(int16(binary.LittleEndian.Uint16(b))) / (1 << 15) }},
	{tagIntegers, 24, func(b []byte) float64 {
		return float64(int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24)) / (1 << 31)
	}},
	{tagIntegers, 32, func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) / (1 << 31) }},
	{tagFloats, 32, func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }},
	{tagFloats, 64, func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }},
}

// Bounds of files.
const (
	minRate     = 1000
	maxRate     = 768000
	maxChannels = 256
	maxChunks   = 1024    // before the samples
	maxFormat   = 1 << 10 // bytes of the chunk "fmt "
	maxLoudness = 1 << 16 // of a sample; 1 is as loud as integers can be
	unknownSize = math.MaxUint32
)

// otherFormats maps the beginnings of sound files to their formats' names.
var otherFormats = map[string]string{
	"ID3": "MP3", "\xff\xfb": "MP3", "\xff\xf3": "MP3", "\xff\xf2": "MP3", "OggS": "Ogg", "fLaC": "FLAC",
	"FORM": "AIFF", "\x1a\x45\xdf\xa3": "Matroska or WebM", ".snd": "AU", "RIFX": "big-endian WAV",
}

// NewWAV reads the header of a WAV file: PCM of 8, 16, 24 or 32 bits or floats, of any rate and number of channels.
func NewWAV(r io.Reader) (*WAV, error) {
	w := &WAV{in: bufio.NewReaderSize(r, 1<<16)}
	head := make([]byte, 12)
	n, err := io.ReadFull(w.in, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	if kind := string(head[:4]); n < len(head) || kind != "RIFF" && kind != "RF64" || string(head[8:]) != "WAVE" {
		return nil, notWAV(head[:n])
	}
	described := false
	for range maxChunks {
		head, err := w.take(8, "a chunk")
		if err != nil {
			return nil, err
		}
		kind, size := string(head[:4]), int64(binary.LittleEndian.Uint32(head[4:]))
		switch {
		case kind == "data" && !described:
			return nil, errors.New("wav: the samples come before the chunk \"fmt \", which describes them")
		case kind == "data":
			if size == unknownSize {
				size = -1
			}
			w.left, w.size = size, size
			return w, nil
		case kind == "fmt ":
			if err := w.readFormat(size); err != nil {
				return nil, err
			}
			described = true
			size &= 1 // the rest of the chunk: a byte of padding after an odd size
		default:
			size += size & 1 // chunks begin at even bytes
		}
		if n, err := io.CopyN(io.Discard, w.in, size); err != nil {
			return nil, fmt.Errorf("wav: the file ends after %d of %d bytes of chunk %q: %w", n, size, kind, err)
		}
	}
	return nil, fmt.Errorf("wav: %d chunks and no samples: want a chunk \"data\"", maxChunks)
}

// notWAV returns the error for a file that begins with head and is not a WAV file. It names the format, if the first
// bytes tell.
func notWAV(head []byte) error {
	kind := fmt.Sprintf("it begins with %q", head)
	for begin, name := range otherFormats {
		if strings.HasPrefix(string(head), begin) {
			kind = "it is " + name
		}
	}
	if len(head) >= 8 && string(head[4:8]) == "ftyp" { // the first box of MP4 files, after its size
		kind = "it is MP4"
	}
	if len(head) == 0 {
		kind = "it is empty"
	}
	return fmt.Errorf("the sound is not a WAV file: %s; convert it, for example with ffmpeg -i FILE -ac 1 -ar %d "+
		"OUT.wav",
		kind, Rate)
}

// take reads n bytes.
func (w *WAV) take(n int64, what string) ([]byte, error) {
	b := make([]byte, n)
	if got, err := io.ReadFull(w.in, b); err != nil {
		return nil, fmt.Errorf("wav: the file ends after %d of %d bytes of %s: %w", got, n, what, err)
	}
	return b, nil
}

// readFormat reads the chunk "fmt ", of size bytes, and checks it. If the rate differs from Rate, it prepares the
// resampling.
func (w *WAV) readFormat(size int64) error {
	if size < 16 || size > maxFormat {
		return fmt.Errorf("wav: the chunk \"fmt \" has %d bytes: want 16 to %d", size, maxFormat)
	}
	b, err := w.take(size, `chunk "fmt "`)
	if err != nil {
		return err
	}
	// The chunk has the tag (2 bytes), the channels (2), the rate (4), the bytes per second (4), the bytes of a sample
	// of all channels (2), and the bits of a sample (2).
	tag, bits := binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[14:])
	if tag == tagExtensible && size >= 26 {
		tag = binary.LittleEndian.Uint16(b[24:]) // the first bytes of the subformat
	}
	channels, rate := int(binary.LittleEndian.Uint16(b[2:])), binary.LittleEndian.Uint32(b[4:])
	found := false
	for _, f := range wavFormats {
		if f.tag == tag && f.bits == bits {
			w.format, found = f, true
		}
	}
	frame := channels * int(bits/8)
	switch {
	case !found:
		return fmt.Errorf("wav: samples of format %d with %d bits are not supported: want integers (format %d) of 8, "+
			"16, 24 or 32 bits, or floats (format %d) of 32 or 64 bits", tag, bits, tagIntegers, tagFloats)
	case channels < 1 || channels > maxChannels:
		return fmt.Errorf("wav: %d channels: want 1 to %d", channels, maxChannels)
	case rate < minRate || rate > maxRate:
		return fmt.Errorf("wav: %d samples per second: want %d to %d", rate, minRate, maxRate)
	case int(binary.LittleEndian.Uint16(b[12:])) != frame:
		return fmt.Errorf("wav: %d bytes for a sample of all channels: want %d, for %d channels of %d bits",
			binary.LittleEndian.Uint16(b[12:]), frame, channels, bits)
	}
	w.rate, w.channels, w.frame = int(rate), channels, make([]byte, frame)
	if w.rate != Rate {
		w.resample = newResampler(w.rate)
	}
	return nil
}

// Samples returns how many samples Read will return in all, or -1 if the file does not say.
func (w *WAV) Samples() int64 {
	if w.size < 0 {
		return -1
	}
	n := w.size / int64(len(w.frame))
	if w.resample == nil {
		return n
	}
	return resampled(n, w.rate)
}

// Read reads the next samples, and returns their number. At the end of the sound it returns io.EOF.
func (w *WAV) Read(samples []float32) (n int, err error) {
	for n < len(samples) {
		if w.resample != nil {
			if v, ok := w.resample.next(); ok {
				samples[n] = v
				n++
				continue
			}
		}
		v, err := w.sample()
		switch {
		// The resampler still has samples, which the loop takes before it sees the end again.
		case err == io.EOF && w.resample != nil && !w.resample.ended:
			w.resample.end()
		case err != nil:
			return n, err
		case w.resample != nil:
			w.resample.add(v)
		default:
			samples[n] = float32(v)
			n++
		}
	}
	return n, nil
}

// sample returns the mean of all channels of the next sample.
func (w *WAV) sample() (float64, error) {
	size := int64(len(w.frame))
	if w.left >= 0 && w.left < size { // the header says that the samples end here
		return 0, io.EOF
	}
	n, err := io.ReadFull(w.in, w.frame)
	atEnd := err == io.EOF || err == io.ErrUnexpectedEOF
	switch {
	case atEnd && w.left < 0: // the header does not say how long the file is
		w.left = 0
		return 0, io.EOF
	case atEnd:
		return 0, fmt.Errorf("wav: the file is truncated: it ends %d bytes before the end of its samples, %d by its "+
			"header", w.left-int64(n), w.size)
	case err != nil:
		return 0, err
	}
	if w.left > 0 {
		w.left -= size
	}
	sum, bytes := 0.0, len(w.frame)/w.channels
	for c := range w.channels {
		v := w.format.value(w.frame[c*bytes:])
		if !(math.Abs(v) <= maxLoudness) { // NaN too
			return 0, fmt.Errorf("wav: sample %d is %v: want -1 to 1, or a little more", w.read, v)
		}
		sum += v
	}
	w.read++
	return sum / float64(w.channels), nil
}
