package main

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

// wav writes samples of 16 bits in a RIFF file, with a chunk before them that is nothing of ours.
func wav(channels, hz int, samples ...int16) []byte {
	chunk := func(id string, content []byte) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte(id), uint32(len(content))), content...)
	}
	format := binary.LittleEndian.AppendUint16(nil, 1)
	format = binary.LittleEndian.AppendUint16(format, uint16(channels))
	format = binary.LittleEndian.AppendUint32(format, uint32(hz))
	format = binary.LittleEndian.AppendUint32(format, uint32(2*channels*hz))
	format = binary.LittleEndian.AppendUint16(format, uint16(2*channels))
	format = binary.LittleEndian.AppendUint16(format, 16)
	var data []byte
	for _, s := range samples {
		data = binary.LittleEndian.AppendUint16(data, uint16(s))
	}
	parts := slices.Concat([]byte("WAVE"), chunk("LIST", []byte("ab")), chunk("fmt ", format), chunk("data", data))
	return chunk("RIFF", parts)
}

func TestParseWAV(t *testing.T) {
	samples, hz, err := parseWAV(wav(2, 8000, 16384, -16384, 8192, 8192, -32768, -32768))
	if err != nil || hz != 8000 || !slices.Equal(samples, []float32{0, 0.25, -1}) {
		t.Errorf("%v at %d, %v", samples, hz, err)
	}
	if got := resampled([]float32{0, 1, 2}, 8000, 16000); !slices.Equal(got, []float32{0, 0.5, 1, 1.5, 2, 2}) {
		t.Errorf("twice as many: %v", got)
	}
	whole := wav(1, 16000, 1, 2, 3)
	for n := range whole { // cut short anywhere it is an error, or shorter
		if samples, _, err := parseWAV(whole[:n]); err == nil && len(samples) > 3 {
			t.Errorf("%d bytes give %v", n, samples)
		}
	}
	if _, _, err := parseWAV(wav(0, 16000)); err == nil || !strings.Contains(err.Error(), "want PCM of 16 bits") {
		t.Error(err)
	}
}

func TestSpans(t *testing.T) {
	// A pause of two windows does not end a span, and one of six does.
	got := spans([]float32{0, 0.9, 0.9, 0.1, 0.1, 0.4, 0, 0, 0, 0, 0, 0, 0.6, 0})
	want := []span{{0.032, 0.192}, {0.384, 0.416}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if math.Abs(got[i].start-want[i].start) > 1e-9 || math.Abs(got[i].end-want[i].end) > 1e-9 {
			t.Errorf("span %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// TestModels hears silence, if make models was run: no model takes it for speech, on the reference or on the fast path.
func TestModels(t *testing.T) {
	for _, model := range []string{"vad/weights/silero_vad_op18_ifless.onnx", "vad/weights/silero_vad.onnx",
		"vad-lstm/dist/silero_vad_legacy.onnx"} {
		model = "../../.tools/models/" + model
		if _, err := os.Stat(model); err != nil {
			t.Skip("make models fetches the models")
		}
		for _, device := range []string{"reference", "cpu"} {
			speech, err := speechProbabilities(t.Context(), device, model, make([]float32, 5*window))
			if err != nil || len(speech) != 5 || slices.Max(speech) > 0.2 || slices.Min(speech) < 0 {
				t.Errorf("%s on %s: %v, %v", model, device, speech, err)
			}
		}
	}
}
