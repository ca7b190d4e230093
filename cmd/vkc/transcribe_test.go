package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/speechtest"
	"github.com/vkc-go/vkc/ir"
)

// speechModel writes the tiny model of speech, and a sound with its transcript.
func speechModel(t *testing.T) (m speechtest.Golden, model, sound string) {
	t.Helper()
	m = speechtest.Read(t, "../..")
	samples := m.Sound(0)
	model = write(t, "ggml-tiny.bin", m.GGML(t, ir.F32))
	wav := speechtest.WAV{Tag: 1, Bits: 16, Channels: 2, Rate: 16000, Samples: len(samples),
		Sound: func(s float64, _ int) float64 { return float64(samples[int(s*16000+0.5)]) }}
	return m, model, write(t, "sound.wav", wav.Bytes())
}

// TestTranscribe: each format has the transcript that a separate program computed.
func TestTranscribe(t *testing.T) {
	m, model, sound := speechModel(t)
	line := []string{"transcribe", sound, "-m", model, "--device", "cpu"}
	var texts []string
	for _, s := range m.Sounds[0].Segments {
		texts = append(texts, strings.TrimSpace(s.Text))
	}
	want := strings.Join(texts, "\n") + "\n"
	if got := ok(t, line...).stdout; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	has(t, ok(t, append(line, "--timestamps")...).stdout, "[00:00:00.120 --> 00:00:00.160] "+texts[0])
	has(t, ok(t, append(line, "--format", "srt")...).stdout, "1\n00:00:00,120 --> 00:00:00,160\n"+texts[0]+"\n\n2\n")
	has(t, ok(t, append(line, "--format", "vtt", "--language", "English")...).stdout, "WEBVTT\n\n00:00:00.120 --> ")
	var got struct {
		Language, Text string
		Segments       []struct{ Tokens []int32 }
	}
	if err := json.Unmarshal([]byte(ok(t, append(line, "--format", "json")...).stdout), &got); err != nil {
		t.Fatal(err)
	}
	if got.Language != "english" || len(got.Segments) != len(texts) || len(got.Segments[0].Tokens) == 0 {
		t.Errorf("%+v", got)
	}
	// A GGUF file that vkc quantize makes of the model is the same model.
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	ok(t, "quantize", model, "-o", file, "--type", "f16")
	if got := ok(t, "transcribe", sound, "-m", file, "--device", "cpu").stdout; len(got) < len(want)/2 {
		t.Errorf("f16: %q, want about %q", got, want)
	}
	has(t, ok(t, "inspect", model).stdout, "enc.conv1d.1.weight", "whisper")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := runCtx(t, ctx, line...); r.code != exitInterrupted {
		t.Errorf("interrupted: %+v", r)
	}
	stdin, err := os.Open(sound)
	if err != nil {
		t.Fatal(err)
	}
	defer func(old *os.File) { os.Stdin = old }(os.Stdin)
	os.Stdin = stdin
	if got := ok(t, "transcribe", "-", "-m", model, "--device", "cpu").stdout; got != want {
		t.Errorf("of standard input: %q, want %q", got, want)
	}
}

// TestServeSpeech: a server writes down a sound as vkc transcribe does.
func TestServeSpeech(t *testing.T) {
	_, model, sound := speechModel(t)
	want := strings.Join(strings.Fields(ok(t, "transcribe", sound, "-m", model, "--device", "cpu").stdout), "")
	var stderr said
	url, end, code := startServe(t, model, "cpu", &stderr)
	content, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "sound.wav")
	if err == nil {
		_, err = part.Write(content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(url+"/v1/audio/transcriptions", w.FormDataContentType(), &form)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got struct{ Text string }
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || res.StatusCode != 200 ||
		strings.Join(strings.Fields(got.Text), "") != want {
		t.Errorf("%d %+v, want %q: %v", res.StatusCode, got, want, err)
	}
	end()
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d: %s", c, &stderr)
	}
	fails(t, exitUsage, []string{"serve", "-m", model, "--max-audio", "0"}, "--max-audio 0")
}

// TestTranscribeRefuses: wrong flags are wrong usage, and files of another kind failures that name the file.
func TestTranscribeRefuses(t *testing.T) {
	_, model, sound := speechModel(t)
	mp3 := write(t, "sound.mp3", []byte("ID3 and so on, and so on"))
	cut, err := os.ReadFile(sound)
	if err != nil {
		t.Fatal(err)
	}
	short := write(t, "short.wav", cut[:len(cut)-7])
	line := func(more ...string) []string {
		return append([]string{"transcribe", sound, "-m", model, "--device", "cpu"}, more...)
	}
	fails(t, exitUsage, []string{"transcribe", sound}, "-m MODEL is missing")
	fails(t, exitUsage, line("--format", "xml"), "--format", "text, srt, vtt, json")
	fails(t, exitUsage, line("--format", "srt", "--timestamps"), "always has times")
	fails(t, exitUsage, line("--language", "fr"), "--language: the model does not know french: it knows en zh de")
	fails(t, exitUsage, line("--temp", "1.5"), "--temp: 1.5: want 0 to 1")
	fails(t, exitUsage, line("--precision", "quarter"), "--precision")
	fails(t, exitFailure, []string{"transcribe", mp3, "-m", model}, mp3, "it is MP3; convert it")
	fails(t, exitFailure, []string{"transcribe", short, "-m", model, "--device", "cpu"}, short, "truncated")
	fails(t, exitFailure, []string{"transcribe", sound, "-m", gollama}, gollama, "is not a speech model: want one of "+
		"whisper")
	fails(t, exitFailure, []string{"transcribe", sound, "-m", sound}, sound)
	fails(t, exitFailure, []string{"generate", "-m", model, "-p", "x"}, model, `architecture "whisper"`)
	// What goes wrong while JSON is written leaves no half of it.
	r := run(t, "transcribe", short, "-m", model, "--device", "cpu", "--format", "json")
	if json.Valid([]byte(r.stdout)) {
		t.Errorf("half a transcript is JSON: %s", r.stdout)
	}
}
