// Package speechtest has a tiny model of speech and WAV files for the tests of several packages.
package speechtest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/ir"
)

// Golden is a tiny model, with results of a separate program: see golden/speech/README.md.
type Golden struct {
	Meta map[string]any
	Made map[string]struct {
		Dims          []int
		Offset, Scale float64
	} `json:"weights"`
	Samples                        []int16
	Tokens                         []int32
	Mel80, Mel128, Encoded, Logits [][]float64

	Alignment struct {
		Tokens          []int32
		Frames          int
		Attention, Some [][]float64 // of all heads of the second layer, and of two heads
		Chances         []float64
		Starts          []int
	}

	Sounds []struct {
		Seed, Samples int
		Language      int32
		Segments      []Segment
		Beams         map[int][]Segment // by the number of beams
	}
}

// Segment is a part of the text of a sound.
type Segment struct {
	Start, End       int // samples
	Text             string
	Tokens           []int32
	LogProb, Silence float64
}

// Sound returns the samples of a sound.
func (m Golden) Sound(i int) []float32 {
	s := m.Sounds[i]
	out := make([]float32, s.Samples)
	for k := range out {
		u := float64(hashed(fmt.Sprintf("sound %d", s.Seed), k)>>40)/(1<<23) - 1
		wave := math.Abs(math.Sin(float64(k) / float64(200+37*s.Seed)))
		out[k] = float32(math.RoundToEven(u*wave*(1<<13)) / (1 << 15))
	}
	return out
}

// hashed is random number i of a name: splitmix64 (Steele et al. 2014) from the name's hash.
func hashed(name string, i int) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	z := h.Sum64() + uint64(i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Read reads the tiny model. root is the folder of the module, relative to the test's.
func Read(t testing.TB, root string) (m Golden) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "golden/speech/whisper.json"))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Metadata returns the model's metadata with the types that GGUF files have: JSON numbers become uint32 if they are
// whole, and otherwise float32.
func (m Golden) Metadata() (list []gguf.KV) {
	for _, key := range slices.Sorted(maps.Keys(m.Meta)) {
		v := m.Meta[key]
		if n, ok := v.(float64); ok && n == math.Trunc(n) {
			v = uint32(n)
		} else if ok {
			v = float32(n)
		}
		list = append(list, gguf.KV{Key: key, Value: v})
	}
	return list
}

// Weights returns the model's weights. They are pseudorandom and follow from their names alone, so that other programs
// can make the same.
func (m Golden) Weights(t testing.TB) map[string]*ir.Data {
	t.Helper()
	all := map[string]*ir.Data{}
	for name, made := range m.Made {
		d, err := ir.NewData(ir.F32, made.Dims...)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float64, d.Elems())
		for i := range values {
			// The top 24 bits of the hash become a number from -1 to 1.
			values[i] = made.Offset + float64(made.Scale*(float64(hashed(name, i)>>40)/(1<<23)-1))
		}
		ir.EncodeFloats(d.Bytes, ir.F32, values)
		all[name] = d
	}
	return all
}

// File returns the model as an opened GGUF file, which it makes in memory. Metadata in more replace those with the same
// keys.
func (m Golden) File(t testing.TB, more ...gguf.KV) *gguf.File {
	t.Helper()
	var w gguf.Writer
	own := slices.DeleteFunc(m.Metadata(), func(kv gguf.KV) bool {
		return slices.ContainsFunc(more, func(o gguf.KV) bool { return o.Key == kv.Key })
	})
	for _, kv := range slices.Concat(own, more) {
		if err := w.Set(kv.Key, kv.Value); err != nil {
			t.Fatal(err)
		}
	}
	weights := m.Weights(t)
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if err := w.Add(name, weights[name]); err != nil {
			t.Fatal(err)
		}
	}
	var buf bytes.Buffer
	if _, err := w.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.NewReader(buf.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// foreign has the names of weights in Hugging Face's folders and in whisper.cpp's files, as their programs write them.
// The first of each line is the name in GGUF.
const foreign = `
	enc.conv1d.1 model.encoder.conv1 encoder.conv1
	enc.conv1d.2 model.encoder.conv2 encoder.conv2
	enc.position_embd model.encoder.embed_positions encoder.positional_embedding
	enc.output_norm model.encoder.layer_norm encoder.ln_post
	token_embd model.decoder.embed_tokens decoder.token_embedding
	position_embd model.decoder.embed_positions decoder.positional_embedding
	dec.output_norm model.decoder.layer_norm decoder.ln
	attn_norm self_attn_layer_norm attn_ln
	attn_q self_attn.q_proj attn.query
	attn_k self_attn.k_proj attn.key
	attn_v self_attn.v_proj attn.value
	attn_output self_attn.out_proj attn.out
	cross_attn_norm encoder_attn_layer_norm cross_attn_ln
	cross_attn_q encoder_attn.q_proj cross_attn.query
	cross_attn_k encoder_attn.k_proj cross_attn.key
	cross_attn_v encoder_attn.v_proj cross_attn.value
	cross_attn_output encoder_attn.out_proj cross_attn.out
	ffn_norm final_layer_norm mlp_ln
	ffn_up fc1 mlp.0
	ffn_down fc2 mlp.2`

// ForeignName returns the name that another format of Whisper models gives to a weight of GGUF name `name`. column is
// the format's column in the table of names: 1 or 2.
func ForeignName(t testing.TB, name string, column int) string {
	t.Helper()
	end := name[strings.LastIndex(name, "."):]
	base, layer := strings.TrimSuffix(name, end), ""
	if parts := strings.SplitN(base, ".", 4); len(parts) == 4 {
		side := map[string]string{"enc": "encoder", "dec": "decoder"}[parts[0]]
		base, layer = parts[3], []string{"model." + side + ".layers.", side + ".blocks."}[column-1]+parts[2]+"."
	}
	for line := range strings.Lines(foreign) {
		names := strings.Fields(line)
		if len(names) == 0 || names[0] != base {
			continue
		}
		if column == 2 && strings.HasSuffix(names[2], "positional_embedding") {
			end = ""
		}
		return layer + names[column] + end
	}
	t.Fatalf("no other name of %q", name)
	return ""
}

// Words are the tokens of text of the tiny model, in the order of merges.
var Words = strings.Split(" |!|'|(|-|a|b|c|d|e|f|g|h|i|l|n|o|r|s|t|u|w|\xc3|\xa9|"+
	"th|he|the| t| the|in|ing|ll|lo|hell|hello| w|or|\xc3\xa9|er|ld", "|")

// GGMLSizes are the sizes of the tiny model in the order of whisper.cpp's files.
var GGMLSizes = []int32{60, 8, 32, 4, 2, 48, 32, 4, 2, 80, 0}

// GGML returns the tiny model as a file of whisper.cpp. If dtype is f16, the matrices are stored in f16, and otherwise
// in f32.
func (m Golden) GGML(t testing.TB, dtype ir.DType) []byte {
	t.Helper()
	out := []byte("lmgg") // the magic number, as little-endian bytes
	u32 := func(v int32) { out = binary.LittleEndian.AppendUint32(out, uint32(v)) }
	for _, n := range GGMLSizes {
		u32(n)
	}
	const bands, frequencies = 80, 201 // of a spectrogram
	u32(bands)
	u32(frequencies)
	for _, v := range speech.MelFilters(bands) {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v))
	}
	// The vocabulary, and then the tensors.
	u32(int32(len(Words)))
	for _, word := range Words {
		u32(int32(len(word)))
		out = append(out, word...)
	}
	all := m.Weights(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := all[name]
		if dtype == ir.F16 && len(d.Dims) > 1 && !strings.Contains(name, "position") {
			d = Half(t, d)
		}
		dims, other := slices.Clone(d.Dims), ForeignName(t, name, 2)
		if strings.HasPrefix(name, "enc.conv1d") && len(dims) == 1 {
			dims = append(dims, 1) // as the files have it
		}
		number, _ := d.DType.GGML()
		u32(int32(len(dims)))
		u32(int32(len(other)))
		u32(int32(number))
		for _, n := range slices.Backward(dims) {
			u32(int32(n))
		}
		out = append(append(out, other...), d.Bytes...)
	}
	return out
}

// Half rounds a tensor to f16.
func Half(t testing.TB, d *ir.Data) *ir.Data {
	t.Helper()
	v, err := d.Floats()
	if err == nil {
		d, err = ir.FromFloats(ir.F16, v, d.Dims...)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// WAV makes a WAV file of a sound.
type WAV struct {
	Tag, Bits, Channels uint16
	Rate                uint32
	Extensible          bool
	SizeUnknown         bool
	Samples             int
	Sound               func(seconds float64, channel int) float64
}

// samples returns the content of the WAV file's chunk "data".
func (w WAV) samples() (data []byte) {
	for i := range w.Samples {
		for c := range int(w.Channels) {
			v := w.Sound(float64(i)/float64(w.Rate), c)
			whole := int64(math.Round(v * float64(uint64(1)<<(w.Bits-1))))
			switch {
			case w.Tag == 3 && w.Bits == 32: // 3 is the tag of floats
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
			case w.Tag == 3:
				data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
			case w.Bits == 8:
				data = append(data, byte(whole+128)) // 8 bits are unsigned
			default:
				data = append(data, binary.LittleEndian.AppendUint64(nil, uint64(whole))[:w.Bits/8]...)
			}
		}
	}
	return data
}

// format returns the content of the WAV file's chunk "fmt ".
func (w WAV) format() (format []byte) {
	tag := w.Tag
	if w.Extensible {
		tag = 0xfffe // the real tag is in the extension
	}
	frame := w.Channels * (w.Bits / 8)
	for _, v := range []any{tag, w.Channels, w.Rate, w.Rate * uint32(frame), frame, w.Bits} {
		format, _ = binary.Append(format, binary.LittleEndian, v)
	}
	if w.Extensible {
		format, _ = binary.Append(format, binary.LittleEndian, []uint16{22, w.Bits, 0, 0, w.Tag, 0, 0, 0, 0, 0, 0, 0})
	}
	return format
}

// Bytes returns the content of the WAV file.
func (w WAV) Bytes() []byte {
	var out []byte
	chunk := func(name string, content []byte) {
		size := uint32(len(content))
		if name == "data" && w.SizeUnknown {
			size = math.MaxUint32
		}
		out = append(out, name...)
		out = binary.LittleEndian.AppendUint32(out, size)
		out = append(out, content...)
		if len(content)%2 == 1 && name != "data" {
			out = append(out, 0)
		}
	}
	// Readers must skip unknown chunks, and the byte that pads an odd length.
	chunk("LIST", []byte("odd"))
	chunk("fmt ", w.format())
	chunk("data", w.samples())
	head := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, uint32(len(out)+4))...)
	return append(append(head, "WAVE"...), out...)
}

// Tone is a sound of one frequency.
func Tone(hertz float64) func(float64, int) float64 {
	return func(s float64, _ int) float64 { return 0.5 * math.Sin(2*math.Pi*hertz*s) }
}
