package transcribe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/internal/speechtest"
	"github.com/vkc-go/vkc/ir"
)

// open loads the tiny model on the CPU.
func open(t *testing.T, m speechtest.Golden) *Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.bin")
	if err := os.WriteFile(path, m.GGML(t, ir.F32), 0o600); err != nil {
		t.Fatal(err)
	}
	if !Is(path) || Is("transcribe.go") {
		t.Error("the wrong files are models of speech")
	}
	model, err := Open(t.Context(), path, Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	return model
}

// TestTranscribe compares transcripts of several windows with those of a program that shares no code with this one.
func TestTranscribe(t *testing.T) {
	m := speechtest.Read(t, "..")
	model := open(t, m)
	if len(m.Sounds) < 2 {
		t.Fatal("there are no sounds")
	}
	for i, want := range m.Sounds {
		var told []Segment
		var last int64
		got, err := model.Transcribe(t.Context(), Samples(m.Sound(i)), Request{
			Segment:  func(s Segment) error { told = append(told, s); return nil },
			Progress: func(done, all int64) { last = done },
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Segments) != len(want.Segments) || len(told) != len(want.Segments) || last != int64(want.Samples) {
			t.Fatalf("sound %d: %d segments, %d told, %d samples, want %d of %d:\n%+v", i, len(got.Segments), len(told),
				last, len(want.Segments), want.Samples, got)
		}
		if got.Language.Code != "en" || got.Duration != duration(int64(want.Samples)) {
			t.Errorf("sound %d: %v, %v", i, got.Language, got.Duration)
		}
		compare(t, fmt.Sprintf("sound %d", i), got.Segments, want.Segments)
		again, err := model.Transcribe(t.Context(), Samples(m.Sound(i)), Request{Language: "English"})
		if err != nil || again.Text() != got.Text() {
			t.Errorf("sound %d, in English: %q: %v, want %q", i, again.Text(), err, got.Text())
		}
	}
}

func compare(t *testing.T, what string, got []Segment, want []speechtest.Segment) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d segments, want %d", what, len(got), len(want))
	}
	for j, s := range got {
		w := want[j]
		if !slices.Equal(s.Tokens, w.Tokens) || s.Text != w.Text || s.Start != duration(int64(w.Start)) ||
			s.End != duration(int64(w.End)) || math.Abs(s.LogProb-w.LogProb) > 1e-3 ||
			math.Abs(s.NoSpeech-w.Silence) > 1e-3 {
			t.Errorf("%s: segment %d is %+v, want %+v", what, j, s, w)
		}
	}
}

// TestBeams compares the texts of a beam search with those of a program that tries every token.
func TestBeams(t *testing.T) {
	m := speechtest.Read(t, "..")
	model := open(t, m)
	compared, different := 0, 0
	for i, sound := range m.Sounds {
		for beams, want := range sound.Beams {
			got, err := model.Transcribe(t.Context(), Samples(m.Sound(i)), Request{Beams: beams})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, fmt.Sprintf("sound %d, %d beams", i, beams), got.Segments, want)
			compared++
			if !reflect.DeepEqual(want, sound.Segments) {
				different++
			}
		}
	}
	if compared < 3 || different == 0 {
		t.Errorf("%d texts compared, %d of them other than without beams", compared, different)
	}
}

// TestRequests: requests that the model cannot fulfil are refused by field, and those that end early say why.
func TestRequests(t *testing.T) {
	m := speechtest.Read(t, "..")
	model := open(t, m)
	for _, tt := range []struct {
		r    Request
		want string
	}{
		{Request{Language: "klingon"}, `Language: "klingon" is unknown`},
		{Request{Language: "french"}, "Language: the model does not know french: it knows en zh de"},
		{Request{Temperature: math.NaN()}, "Temperature: NaN: want 0 to 1"},
		{Request{Temperature: 1.5}, "Temperature: 1.5"},
		{Request{Beams: 33}, "Beams: 33: want 0 to 32"},
		{Request{Prompt: strings.Repeat("a", maxPromptBytes+1)}, "Prompt: 65537 bytes"},
	} {
		_, err := model.Transcribe(t.Context(), Samples(m.Sound(0)), tt.r)
		if wrong := (*RequestError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.r, err, tt.want)
		}
	}
	stop := errors.New("enough")
	got, err := model.Transcribe(t.Context(), Samples(m.Sound(0)), Request{Prompt: "the hello ing in other w",
		Segment: func(Segment) error { return stop }})
	if !errors.Is(err, stop) || len(got.Segments) != 1 {
		t.Errorf("stopped: %v, %d segments", err, len(got.Segments))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := model.Transcribe(ctx, Samples(m.Sound(0)), Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	for _, n := range []int{0, minSound - 1} {
		if got, err := model.Transcribe(t.Context(), Samples(make([]float32, n)), Request{}); err != nil ||
			len(got.Segments) > 0 || got.Text() != "" {
			t.Errorf("%d samples: %+v: %v", n, got, err)
		}
	}
	for _, r := range []Request{{Temperature: 1, Seed: 3}, {Translate: true, Language: "de"}} {
		first, err := model.Transcribe(t.Context(), Samples(m.Sound(1)), r)
		second, again := model.Transcribe(t.Context(), Samples(m.Sound(1)), r)
		if err != nil || again != nil || fmt.Sprint(first) != fmt.Sprint(second) {
			t.Errorf("%+v: %v, %v, %v, %v", r, first, second, err, again)
		}
	}
}

// TestSegments: text between timestamps becomes segments, and what comes after the last whole one is heard again.
func TestSegments(t *testing.T) {
	m := speechtest.Read(t, "..")
	j := &job{Model: open(t, m)}
	at := func(n int32) int32 { return j.tokens.Timestamps + n }
	const a, b, blank = 5, 6, 0 // tokens of "a", "b" and a space
	for _, tt := range []struct {
		tokens []int32
		size   int
		want   string
	}{
		{nil, 2560, "2560"},
		{[]int32{at(0), a, at(3), at(3), b, at(5)}, 2560, "0-960 a, 960-1600 b, 2560"},   // ends alone: all is done
		{[]int32{at(0), a, at(3), at(3), b}, 2560, "0-960 a, 960"},                       // b is heard again
		{[]int32{at(1), a, at(3), at(3)}, 2560, "320-960 a, 960"},                        // a pair at the end
		{[]int32{at(1), a, at(4)}, 2560, "320-1280 a, 2560"},                             // one segment
		{[]int32{at(2), a}, 2560, "640-2560 a, 2560"},                                    // cut off
		{[]int32{at(0), a, at(8)}, 1000, "0-1000 a, 1000"},                               // beyond the sound
		{[]int32{at(4), a, at(6), at(6), b, at(8)}, 1000, "1000"},                        // all of it beyond
		{[]int32{at(0), blank, at(2), at(2), b, at(4), at(4)}, 2560, "640-1280 b, 1280"}, // nothing said at first
		{[]int32{at(0), a, at(2), at(3), b, at(4), at(6), a, at(8)}, 2560, "0-640 a, 960-1280 b, 1920-2560 a, 2560"},
	} {
		list, done := j.segments(tt.tokens, tt.size)
		var got []string
		for _, s := range list {
			samples := func(d time.Duration) int64 { return int64(d) * speech.Rate / int64(time.Second) }
			got = append(got, fmt.Sprintf("%d-%d %s", samples(s.Start), samples(s.End), s.Text))
		}
		if all := strings.Join(append(got, fmt.Sprint(done)), ", "); all != tt.want {
			t.Errorf("%v: %s, want %s", tt.tokens, all, tt.want)
		}
	}
}

// TestAllowed: which tokens may follow which, by the rules of timestamps.
func TestAllowed(t *testing.T) {
	m := speechtest.Read(t, "..")
	j := &job{Model: open(t, m)}
	at := func(n int32) int32 { return j.tokens.Timestamps + n }
	const a = 5
	for _, tt := range []struct {
		name          string
		text          []int32
		likely        int32 // a token that is likelier than all others
		words, end    bool
		first, latest int32 // timestamps that are allowed; first > latest means none
	}{
		{"at the beginning", nil, a, false, false, 0, 8},
		{"a segment has begun", []int32{at(2)}, a, true, true, 9, 8},
		{"after a word", []int32{at(2), a}, a, true, true, 3, 8},
		{"a segment has ended", []int32{at(2), a, at(4)}, j.tokens.End, false, true, 4, 8},
		{"the next has begun", []int32{at(2), a, at(4), at(5)}, a, true, true, 9, 8},
		{"its first word", []int32{at(2), a, at(4), at(5), a}, a, true, true, 6, 8},
		{"timestamps together are likelier", []int32{at(2), a}, at(7), false, false, 3, 8},
	} {
		logits := make([]float64, j.config.Vocab)
		logits[tt.likely] = 20
		j.allow(logits, tt.text)
		may := func(id int32) bool { return !math.IsInf(logits[id], -1) }
		if may(a) != tt.words || may(j.tokens.End) != tt.end {
			t.Errorf("%s: words %v, the end %v", tt.name, may(a), may(j.tokens.End))
		}
		for n := int32(0); n <= 8; n++ {
			if want := n >= tt.first && n <= tt.latest; may(at(n)) != want {
				t.Errorf("%s: timestamp %d: %v", tt.name, n, may(at(n)))
			}
		}
		for _, id := range []int32{j.tokens.Start, j.tokens.NoTimestamps, j.tokens.NoSpeech, j.tokens.Languages["de"]} {
			if may(id) {
				t.Errorf("%s: token %d is allowed", tt.name, id)
			}
		}
	}
}

// TestFormats: each format has the times and texts in its own way.
func TestFormats(t *testing.T) {
	tr := &Transcript{Language: speech.Language{Code: "en", Name: "english"}, Duration: 2 * time.Hour}
	tr.Segments = []Segment{
		{Start: 1500 * time.Millisecond, End: 2 * time.Second, Text: " Hello,\nworld --> <here>", Tokens: []int32{1, 2}},
		{Start: 3661 * time.Second, End: 3662*time.Second + 40*time.Millisecond, Text: " Bye.", Tokens: []int32{3}},
	}
	for name, want := range map[string]string{
		"text":  "Hello,\nworld --> <here>\nBye.\n",
		"lines": "[00:00:01.500 --> 00:00:02.000] Hello,\nworld --> <here>\n[01:01:01.000 --> 01:01:02.040] Bye.\n",
		"srt":   "1\n00:00:01,500 --> 00:00:02,000\nHello, world -> <here>\n\n2\n01:01:01,000 --> 01:01:02,040\nBye.\n\n",
		"vtt": "WEBVTT\n\n00:00:01.500 --> 00:00:02.000\nHello, world -&gt; &lt;here&gt;\n\n" +
			"01:01:01.000 --> 01:01:02.040\nBye.\n\n",
		"json": `{"text":"Hello,\nworld --> <here> Bye."}` + "\n",
	} {
		f, ok := FormatNamed(name)
		var b strings.Builder
		if err := f.Write(&b, tr); err != nil || !ok || b.String() != want {
			t.Errorf("%s: %q, want %q: %v", name, b.String(), want, err)
		}
	}
	f, _ := FormatNamed("verbose_json")
	var b strings.Builder
	if err := f.Write(&b, tr); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Task, Language, Text string
		Duration             float64
		Segments             []struct {
			ID, Seek   int
			Start, End float64
			Tokens     []int32
		}
	}
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got.Task != "transcribe" ||
		got.Language != "english" || got.Duration != 7200 || len(got.Segments) != 2 || got.Segments[1].Start != 3661 ||
		got.Segments[1].ID != 1 || len(got.Segments[0].Tokens) != 2 {
		t.Errorf("%s: %+v: %v", b.String(), got, err)
	}
	full := errors.New("the disk is full")
	for _, name := range FormatNames() {
		f, _ := FormatNamed(name)
		if err := f.Write(failing{full}, tr); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// failing is a writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
