package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/internal/speechtest"
	"github.com/vkc-go/vkc/serve"
	"github.com/vkc-go/vkc/transcribe"
)

// ear is a model of speech that says what it was asked.
type ear struct {
	*echo
	heard chan transcribe.Request // nil for none
	hold  chan struct{}           // requests wait for it; nil for none
}

func (e ear) Check(r transcribe.Request) error {
	if r.Language == "klingon" {
		return (*transcribe.Model)(nil).Check(r)
	}
	return nil
}

func (e ear) Transcribe(ctx context.Context, s transcribe.Sound, r transcribe.Request) (*transcribe.Transcript, error) {
	t := &transcribe.Transcript{Language: speech.Languages[2], Translate: r.Translate}
	samples, n := make([]float32, 1000), 0
	for {
		k, err := s.Read(samples)
		n += k
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return t, err
		}
	}
	if e.hold != nil {
		select {
		case <-e.hold:
		case <-ctx.Done():
			return t, ctx.Err()
		}
	}
	if e.failing {
		return t, errors.New("the device is lost")
	}
	if e.heard != nil {
		e.heard <- r
	}
	t.Duration = time.Duration(n) * time.Second / speech.Rate
	t.Segments = []transcribe.Segment{{End: t.Duration, Text: fmt.Sprintf(" %d samples", n), Tokens: []int32{7}}}
	return t, nil
}

// soundFile is a WAV file of 100 samples.
func soundFile() []byte {
	return speechtest.WAV{Tag: 1, Bits: 16, Channels: 1, Rate: 16000, Samples: 100, Sound: speechtest.Tone(440)}.Bytes()
}

// form makes a form with a file and other fields, "NAME=VALUE" each.
func form(t *testing.T, file []byte, fields ...string) (kind string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if file != nil {
		part, err := w.CreateFormFile("file", "sound.wav")
		if err == nil {
			_, err = part.Write(file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, "=")
		if err := w.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.Bytes()
}

// send sends a form.
func send(t *testing.T, url, origin, kind string, body []byte) (status int, header http.Header, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(raw)
}

// TestAudio: forms become requests, and transcripts have the format that was asked for.
func TestAudio(t *testing.T) {
	e := ear{echo: newEcho(t), heard: make(chan transcribe.Request, 1)}
	server := httptest.NewServer(serve.NewTranscriptions(e, serve.Options{Name: "whisper",
		Origins: []string{"https://app.example"}}))
	defer server.Close()
	for _, tt := range []struct {
		fields []string
		kind   string // of the answer
		want   string
		asked  transcribe.Request
	}{
		{[]string{"model=whisper-1"}, "application/json", `{"text":"100 samples"}` + "\n", transcribe.Request{}},
		{[]string{"response_format=text", "language=de", "prompt=names", "temperature=0.4"},
			"text/plain; charset=utf-8", "100 samples\n", transcribe.Request{Language: "de", Prompt: "names", Temperature: 0.4}},
		{[]string{"response_format=srt"}, "application/x-subrip; charset=utf-8",
			"1\n00:00:00,000 --> 00:00:00,006\n100 samples\n\n", transcribe.Request{}},
		{[]string{"response_format=vtt"}, "text/vtt; charset=utf-8", "WEBVTT\n\n00:00:00.000", transcribe.Request{}},
		{[]string{"response_format=verbose_json", "timestamp_granularities[]=segment"}, "application/json",
			`{"task":"transcribe","language":"german","duration":0.00625,"text":"100 samples","segments":[{"id":0,"seek":0,`,
			transcribe.Request{}},
		{[]string{"response_format=verbose_json", "timestamp_granularities[]=word"}, "application/json",
			`{"task":"transcribe"`, transcribe.Request{Words: true}},
	} {
		kind, body := form(t, soundFile(), tt.fields...)
		for _, path := range []string{"/v1/audio/transcriptions", "/audio/transcriptions", "/v1/audio/translations"} {
			status, header, text := send(t, server.URL+path, "", kind, body)
			asked := <-e.heard
			want, answer := tt.asked, tt.want
			if want.Translate = strings.HasSuffix(path, "translations"); want.Translate {
				answer = strings.Replace(answer, `"transcribe"`, `"translate"`, 1)
			}
			if status != 200 || header.Get("Content-Type") != tt.kind || !strings.HasPrefix(text, answer) ||
				fmt.Sprint(asked) != fmt.Sprint(want) || header.Get("Warnings") != "" {
				t.Errorf("%s %v: %d %v %s; asked %+v", path, tt.fields, status, header, text, asked)
			}
		}
	}
	kind, body := form(t, soundFile(), "chunking_strategy=auto", "stream=true")
	_, header, _ := send(t, server.URL+"/v1/audio/transcriptions", "https://app.example", kind, body)
	<-e.heard
	if got := header.Get("Warnings"); got != "fields passed over: chunking_strategy, stream" {
		t.Errorf("warnings %q", got)
	}
}

// TestAudioRefuses: what is wrong with a form is said, and no temporary file is left.
func TestAudioRefuses(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	e := ear{echo: newEcho(t)}
	o := serve.Options{Name: "whisper", StrictModel: true, StrictFields: true, MaxBody: 100, MaxAudio: 3 << 20}
	server := httptest.NewServer(serve.NewTranscriptions(e, o))
	defer server.Close()
	cut := soundFile()
	long := speechtest.WAV{Tag: 1, Bits: 16, Channels: 1, Rate: 16000, Samples: 1 << 20, Sound: speechtest.Tone(440)}
	for _, tt := range []struct {
		file   []byte
		fields []string
		status int
		want   string
	}{
		{nil, nil, 400, "the form has 0 files in the field file: want one"},
		{[]byte("ID3 is MP3"), nil, 400, "file: the sound is not a WAV file: it is MP3"},
		{cut[:len(cut)-9], nil, 400, "file: wav: the file is truncated"},
		{soundFile(), []string{"model=other"}, 404, `there is no model \"other\" here: want \"whisper\"`},
		{soundFile(), []string{"language=klingon"}, 400, `language: \"klingon\" is unknown`},
		{soundFile(), []string{"temperature=warm"}, 400, `temperature is \"warm\": want a number`},
		{soundFile(), []string{"response_format=xml"}, 400, `response_format is \"xml\": want one of text`},
		{soundFile(), []string{"timestamp_granularities[]=line"}, 400, `is \"line\": want segment or word`},
		{soundFile(), []string{"timestamp_granularities=line"}, 400, `is \"line\": want segment or word`},
		{soundFile(), []string{"stream=true"}, 400, "stream is not supported"},
		{long.Bytes(), []string{"prompt=" + strings.Repeat("a", 1<<20)}, 413, "longer than 3145728 bytes"},
		{long.Bytes()[:2<<20], nil, 400, "truncated"}, // in a temporary file
	} {
		kind, body := form(t, tt.file, tt.fields...)
		status, _, text := send(t, server.URL+"/v1/audio/transcriptions", "", kind, body)
		if status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%.60v: %d %s, want %d %q", tt.fields, status, text, tt.status, tt.want)
		}
	}
	kind, body := form(t, soundFile())
	status, _, text := send(t, server.URL+"/v1/audio/transcriptions", "https://evil.example", kind, body)
	if status != http.StatusUnsupportedMediaType {
		t.Errorf("a form of another site's page: %d %s", status, text)
	}
	for _, kind := range []string{"application/json", "multipart/form-data", "text/plain", kind + "x"} {
		if status, _, text := send(t, server.URL+"/v1/audio/transcriptions", "", kind, body); status != 400 {
			t.Errorf("as %s: %d %s", kind, status, text)
		}
	}
	if status, text := post(t, server.URL+"/v1/completions", `{"prompt": "x"}`); status != 400 ||
		!strings.Contains(text, "this is a speech model: use /v1/audio/transcriptions") {
		t.Errorf("text: %d %s", status, text)
	}
	e.failing = true
	if status, _, text := send(t, server.URL+"/v1/audio/transcriptions", "", kind, body); status != 500 ||
		!strings.Contains(text, "the device is lost") {
		t.Errorf("failing: %d %s", status, text)
	}
	deaf := start(t, newEcho(t), serve.Options{Name: "gollama"})
	if status, _, text := send(t, deaf.URL+"/v1/audio/transcriptions", "", kind, body); status != 400 ||
		!strings.Contains(text, "does not transcribe: want a speech model") {
		t.Errorf("a model of text: %d %s", status, text)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// TestAudioOfSeveral: the form's field model names one of several models.
func TestAudioOfSeveral(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	source := func(name string) serve.Source {
		open := func(_ context.Context, o serve.Options) (*serve.Server, io.Closer, error) {
			e := newEcho(t)
			if name == "text" {
				return serve.New(e, o), io.NopCloser(nil), nil
			}
			return serve.NewTranscriptions(ear{echo: e}, o), io.NopCloser(nil), nil
		}
		return serve.Source{Name: name, Open: open}
	}
	v := serve.NewSeveral([]serve.Source{source("text"), source("whisper")}, serve.Options{MaxBody: 100},
		serve.Limits{})
	server := httptest.NewServer(v)
	defer func() {
		server.Close()
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	}()
	for name, want := range map[string]string{"whisper": `{"text":"100 samples"}`, "text": "does not transcribe",
		"": "does not transcribe", "other": "there is no model"} {
		kind, body := form(t, soundFile(), "model="+name)
		if _, _, text := send(t, server.URL+"/v1/audio/transcriptions", "", kind, body); !strings.Contains(text, want) {
			t.Errorf("%q: %s", name, text)
		}
	}
	long := speechtest.WAV{Tag: 1, Bits: 16, Channels: 1, Rate: 16000, Samples: 1 << 20, Sound: speechtest.Tone(440)}
	for _, name := range []string{"whisper", "other"} {
		kind, body := form(t, long.Bytes(), "model="+name)
		send(t, server.URL+"/v1/audio/transcriptions", "", kind, body)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// TestAudioEnds: a request that is cut, or takes too long, ends.
func TestAudioEnds(t *testing.T) {
	e := ear{echo: newEcho(t), hold: make(chan struct{})}
	s := serve.NewTranscriptions(e, serve.Options{Timeout: time.Millisecond})
	server := httptest.NewServer(s)
	defer server.Close()
	kind, body := form(t, soundFile())
	if status, _, text := send(t, server.URL+"/v1/audio/transcriptions", "", kind, body); status != 504 {
		t.Errorf("%d %s", status, text)
	}
}
