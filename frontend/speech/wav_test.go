package speech_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/internal/speechtest"
)

// readAll reads a sound in parts of different sizes.
func readAll(r io.Reader) (all []float32, said int64, err error) {
	w, err := speech.NewWAV(r)
	if err != nil {
		return nil, 0, err
	}
	part := make([]float32, 700)
	for i := 1; ; i = i*3%699 + 1 {
		n, err := w.Read(part[:i])
		all = append(all, part[:n]...)
		if err == io.EOF {
			return all, w.Samples(), nil
		} else if err != nil {
			return all, w.Samples(), err
		}
	}
}

// TestWAVFormats: every format has the same sound, up to its rounding.
func TestWAVFormats(t *testing.T) {
	for _, w := range []speechtest.WAV{
		{Tag: 1, Bits: 8}, {Tag: 1, Bits: 16}, {Tag: 1, Bits: 24}, {Tag: 1, Bits: 32}, {Tag: 3, Bits: 32},
		{Tag: 3, Bits: 64}, {Tag: 1, Bits: 24, Extensible: true}, {Tag: 3, Bits: 32, Extensible: true},
		{Tag: 1, Bits: 16, SizeUnknown: true},
	} {
		for _, w.Channels = range []uint16{1, 2, 3} {
			w.Rate, w.Samples = speech.Rate, 1000
			w.Sound = func(s float64, c int) float64 { // the first channel is louder
				return speechtest.Tone(300)(s, c) * 0.4 * (1 + float64(int(w.Channels)*(1-min(c, 1))))
			}
			if w.Channels == 1 {
				w.Sound = speechtest.Tone(300)
			}
			got, said, err := readAll(bytes.NewReader(w.Bytes()))
			if err != nil || len(got) != w.Samples || said != int64(w.Samples) && !w.SizeUnknown {
				t.Fatalf("%+v: %d samples, %d said: %v", w, len(got), said, err)
			}
			for i, v := range got {
				want := 0.0
				for c := range int(w.Channels) {
					want += w.Sound(float64(i)/speech.Rate, c) / float64(w.Channels)
				}
				if math.Abs(float64(v)-want) > 2*math.Ldexp(1, -min(int(w.Bits), 24)) {
					t.Fatalf("%d bits, format %d, %d Channels: sample %d is %v, want %v", w.Bits, w.Tag, w.Channels, i,
						v, want)
				}
			}
		}
	}
}

// TestWAVRates: a tone stays the same tone at every rate, and one that Rate cannot have disappears.
func TestWAVRates(t *testing.T) {
	for _, rate := range []uint32{8000, 11025, 16000, 22050, 44100, 48000, 96000, 44101, 1000, 768000} {
		hertz := min(1000, float64(rate)/5)
		w := speechtest.WAV{Tag: 3, Bits: 32, Channels: 1, Rate: rate, Samples: int(rate) / 5}
		w.Sound = speechtest.Tone(hertz)
		got, said, err := readAll(bytes.NewReader(w.Bytes()))
		want := (w.Samples*speech.Rate + int(rate) - 1) / int(rate)
		if err != nil || len(got) != want || said != int64(want) {
			t.Fatalf("rate %d: %d samples, said %d, want %d: %v", rate, len(got), said, want, err)
		}
		edge := 24 * speech.Rate * 21 / 20 / int(min(rate, speech.Rate)) // where the filter meets the end
		for i := edge; i < len(got)-edge; i++ {
			if v := w.Sound(float64(i)/speech.Rate, 0); math.Abs(float64(got[i])-v) > 1e-4 {
				t.Fatalf("rate %d: sample %d of %d is %v, want %v", rate, i, len(got), got[i], v)
			}
		}
	}
	w := speechtest.WAV{Tag: 3, Bits: 32, Channels: 1, Rate: 48000, Samples: 9600, Sound: speechtest.Tone(8500)}
	got, _, err := readAll(bytes.NewReader(w.Bytes()))
	for i := 30; i < len(got)-30; i++ {
		if err != nil || math.Abs(float64(got[i])) > 1e-3 {
			t.Fatalf("a tone of 8500 Hz has sample %d of %v: %v", i, got[i], err)
		}
	}
}

// TestWAVRefuses: what is wrong with a file is said.
func TestWAVRefuses(t *testing.T) {
	good := speechtest.WAV{Tag: 1, Bits: 16, Channels: 1, Rate: 16000, Samples: 8, Sound: speechtest.Tone(100)}.Bytes()
	with := func(at int, v ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], v)
		return b
	}
	const format, data = 12 + 12, 12 + 12 + 24
	for _, tt := range []struct {
		file []byte
		want string
	}{
		{nil, "it is empty"},
		{[]byte("ID3\x04 and more than that"), "it is MP3; convert it, for example with ffmpeg -i FILE -ac 1 -ar 16000"},
		{[]byte("\x00\x00\x00\x20ftypM4A and more"), "it is MP4"},
		{good[:11], "not a WAV file"},
		{with(0, 'R', 'I', 'F', 'X'), "it is big-endian WAV"},
		{with(8, 'A', 'V', 'I', ' '), "not a WAV file"},
		{good[:32], `ends after 0 of 16 bytes of chunk "fmt "`},
		{good[:data+4], "ends after 4 of 8 bytes of a chunk"},
		{good[:len(good)-2], "truncated: it ends 2 bytes before the end of its samples, 16 by its header"},
		{with(format+8, 6), "format 6 with 16 bits are not supported: want integers (format 1)"},
		{with(format+10, 0), "0 channels"},
		{with(format+12, 1, 0), "1 samples per second: want 1000 to 768000"},
		{with(format+20, 4), "4 bytes for a sample of all channels: want 2, for 1 channels of 16 bits"},
		{with(format, 'f', 'm', 't', 'x'), `before the chunk "fmt "`},
		{with(format+4, 3), `"fmt " has 3 bytes: want 16 to 1024`},
		{with(data+4, 0xff, 0xff, 0xff, 0x7f), "truncated"},
		{append(bytes.Clone(good[:12]), bytes.Repeat([]byte("junk\x00\x00\x00\x00"), 1024)...), "1024 chunks and no samples"},
		{speechtest.WAV{Tag: 3, Bits: 32, Channels: 1, Rate: 16000, Samples: 8,
			Sound: func(float64, int) float64 { return math.NaN() }}.Bytes(), "sample 0 is NaN"},
		{speechtest.WAV{Tag: 3, Bits: 64, Channels: 1, Rate: 16000, Samples: 8,
			Sound: func(s float64, _ int) float64 { return 1e300 * s }}.Bytes(), "sample 1 is 6.25e+295"},
	} {
		if _, _, err := readAll(bytes.NewReader(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %q", tt.file, err, tt.want)
		}
	}
}

// FuzzWAV: no file makes the reader panic, or return other samples than numbers of a bounded size.
func FuzzWAV(f *testing.F) {
	for _, w := range []speechtest.WAV{{Tag: 1, Bits: 16, Rate: 16000},
		{Tag: 1, Bits: 24, Rate: 44100, Extensible: true}, {Tag: 3, Bits: 32, Rate: 8000, SizeUnknown: true}} {
		w.Channels, w.Samples, w.Sound = 2, 20, speechtest.Tone(1000)
		f.Add(w.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, _, err := readAll(bytes.NewReader(data))
		for i, v := range got {
			if !(math.Abs(float64(v)) < 1<<24) {
				t.Fatal(fmt.Sprint("sample ", i, " is ", v, ": ", err))
			}
		}
	})
}
