package speech_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/speech"
)

// wavFile makes a WAV file of a sound.
type wavFile struct {
	tag, bits, channels uint16
	rate                uint32
	extensible          bool
	sizeUnknown         bool
	samples             int
	sound               func(seconds float64, channel int) float64
}

func (w wavFile) bytes() []byte {
	var data, out []byte
	for i := range w.samples {
		for c := range int(w.channels) {
			v := w.sound(float64(i)/float64(w.rate), c)
			whole := int64(math.Round(v * float64(uint64(1)<<(w.bits-1))))
			switch {
			case w.tag == 3 && w.bits == 32:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
			case w.tag == 3:
				data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
			case w.bits == 8:
				data = append(data, byte(whole+128))
			default:
				data = append(data, binary.LittleEndian.AppendUint64(nil, uint64(whole))[:w.bits/8]...)
			}
		}
	}
	format := []byte{}
	tag := w.tag
	if w.extensible {
		tag = 0xfffe
	}
	frame := w.channels * (w.bits / 8)
	for _, v := range []any{tag, w.channels, w.rate, w.rate * uint32(frame), frame, w.bits} {
		format, _ = binary.Append(format, binary.LittleEndian, v)
	}
	if w.extensible {
		format, _ = binary.Append(format, binary.LittleEndian, []uint16{22, w.bits, 0, 0, w.tag, 0, 0, 0, 0, 0, 0, 0})
	}
	chunk := func(name string, content []byte) {
		size := uint32(len(content))
		if name == "data" && w.sizeUnknown {
			size = math.MaxUint32
		}
		out = append(out, name...)
		out = binary.LittleEndian.AppendUint32(out, size)
		out = append(out, content...)
		if len(content)%2 == 1 && name != "data" {
			out = append(out, 0)
		}
	}
	chunk("LIST", []byte("odd"))
	chunk("fmt ", format)
	chunk("data", data)
	head := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(len(out)+4))...)
	return append(append(head, "WAVE"...), out...)
}

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

func tone(hertz float64) func(float64, int) float64 {
	return func(s float64, _ int) float64 { return 0.5 * math.Sin(2*math.Pi*hertz*s) }
}

// TestWAVFormats: every format has the same sound, up to its rounding.
func TestWAVFormats(t *testing.T) {
	for _, w := range []wavFile{
		{tag: 1, bits: 8}, {tag: 1, bits: 16}, {tag: 1, bits: 24}, {tag: 1, bits: 32}, {tag: 3, bits: 32},
		{tag: 3, bits: 64}, {tag: 1, bits: 24, extensible: true}, {tag: 3, bits: 32, extensible: true},
		{tag: 1, bits: 16, sizeUnknown: true},
	} {
		for _, w.channels = range []uint16{1, 2, 3} {
			w.rate, w.samples = speech.Rate, 1000
			w.sound = func(s float64, c int) float64 { // the first channel is louder
				return tone(300)(s, c) * 0.4 * (1 + float64(int(w.channels)*(1-min(c, 1))))
			}
			if w.channels == 1 {
				w.sound = tone(300)
			}
			got, said, err := readAll(bytes.NewReader(w.bytes()))
			if err != nil || len(got) != w.samples || said != int64(w.samples) && !w.sizeUnknown {
				t.Fatalf("%+v: %d samples, %d said: %v", w, len(got), said, err)
			}
			for i, v := range got {
				want := 0.0
				for c := range int(w.channels) {
					want += w.sound(float64(i)/speech.Rate, c) / float64(w.channels)
				}
				if math.Abs(float64(v)-want) > 2*math.Ldexp(1, -min(int(w.bits), 24)) {
					t.Fatalf("%d bits, format %d, %d channels: sample %d is %v, want %v", w.bits, w.tag, w.channels, i,
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
		w := wavFile{tag: 3, bits: 32, channels: 1, rate: rate, samples: int(rate) / 5, sound: tone(hertz)}
		got, said, err := readAll(bytes.NewReader(w.bytes()))
		want := (w.samples*speech.Rate + int(rate) - 1) / int(rate)
		if err != nil || len(got) != want || said != int64(want) {
			t.Fatalf("rate %d: %d samples, said %d, want %d: %v", rate, len(got), said, want, err)
		}
		edge := 24 * speech.Rate * 21 / 20 / int(min(rate, speech.Rate)) // where the filter meets the end
		for i := edge; i < len(got)-edge; i++ {
			if v := w.sound(float64(i)/speech.Rate, 0); math.Abs(float64(got[i])-v) > 1e-4 {
				t.Fatalf("rate %d: sample %d of %d is %v, want %v", rate, i, len(got), got[i], v)
			}
		}
	}
	w := wavFile{tag: 3, bits: 32, channels: 1, rate: 48000, samples: 9600, sound: tone(8500)}
	got, _, err := readAll(bytes.NewReader(w.bytes()))
	for i := 30; i < len(got)-30; i++ {
		if err != nil || math.Abs(float64(got[i])) > 1e-3 {
			t.Fatalf("a tone of 8500 Hz has sample %d of %v: %v", i, got[i], err)
		}
	}
}

// TestWAVRefuses: what is wrong with a file is said.
func TestWAVRefuses(t *testing.T) {
	good := wavFile{tag: 1, bits: 16, channels: 1, rate: 16000, samples: 8, sound: tone(100)}.bytes()
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
		{[]byte("ID3\x04 and more than that"), "it is MP3; convert it, for example by ffmpeg -i FILE -ac 1 -ar 16000"},
		{[]byte("\x00\x00\x00\x20ftypM4A and more"), "it is MP4"},
		{good[:11], "no WAV file"},
		{with(0, 'R', 'I', 'F', 'X'), "it is big-endian WAV"},
		{with(8, 'A', 'V', 'I', ' '), "no WAV file"},
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
		{wavFile{tag: 3, bits: 32, channels: 1, rate: 16000, samples: 8,
			sound: func(float64, int) float64 { return math.NaN() }}.bytes(), "sample 0 is NaN"},
		{wavFile{tag: 3, bits: 64, channels: 1, rate: 16000, samples: 8,
			sound: func(s float64, _ int) float64 { return 1e300 * s }}.bytes(), "sample 1 is 6.25e+295"},
	} {
		if _, _, err := readAll(bytes.NewReader(tt.file)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %q", tt.file, err, tt.want)
		}
	}
}

// FuzzWAV: no file makes the reader panic, or return other samples than numbers of a bounded size.
func FuzzWAV(f *testing.F) {
	for _, w := range []wavFile{{tag: 1, bits: 16, rate: 16000}, {tag: 1, bits: 24, rate: 44100, extensible: true},
		{tag: 3, bits: 32, rate: 8000, sizeUnknown: true}} {
		w.channels, w.samples, w.sound = 2, 20, tone(1000)
		f.Add(w.bytes())
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
