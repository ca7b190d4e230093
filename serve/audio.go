package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/frontend/tokenizer"
	"github.com/vkc-go/vkc/transcribe"
)

// Transcriber writes down speech: a [transcribe.Model].
type Transcriber interface {
	Tokenizer() *tokenizer.Tokenizer
	Context() int // tokens for a window of sound
	Check(transcribe.Request) error
	Transcribe(context.Context, transcribe.Sound, transcribe.Request) (*transcribe.Transcript, error)
}

// NewTranscriptions returns a server for a model of speech. It does not close the model.
func NewTranscriptions(t Transcriber, o Options) *Server {
	s := New(textless{t, "this is a speech model: use /v1/audio/transcriptions"}, o)
	s.transcriber = t
	return s
}

// audioForm describes the fields of a form for the OpenAPI description, and lists their names.
type audioForm struct {
	File          *multipart.FileHeader `json:"file"`
	Model         string                `json:"model"`
	Language      string                `json:"language"`
	Prompt        string                `json:"prompt"`
	Format        string                `json:"response_format"`
	Temperature   float64               `json:"temperature"`
	Granularities []string              `json:"timestamp_granularities[]"`
}

// formMemory is how much of a form is kept in memory. The rest is in a temporary file.
const formMemory = 1 << 20

// transcriptions answers POST /v1/audio/transcriptions.
func (s *Server) transcriptions(w http.ResponseWriter, r *http.Request) error {
	return s.writeDown(w, r, false)
}

// translations answers POST /v1/audio/translations: the text is in English.
func (s *Server) translations(w http.ResponseWriter, r *http.Request) error {
	return s.writeDown(w, r, true)
}

// writeDown answers a request to transcribe a sound: with the text in its own language, or in English if translate is
// set.
func (s *Server) writeDown(w http.ResponseWriter, r *http.Request, translate bool) error {
	if err := readForm(r); err != nil {
		return err
	}
	if s.transcriber == nil {
		return refuse(http.StatusBadRequest, "model", "model %q does not transcribe: want a speech model, such as "+
			"Whisper", s.o.Name)
	}
	q, format, err := s.audioRequest(w, r.MultipartForm)
	if err != nil {
		return err
	}
	q.Translate = translate
	if err := s.transcriber.Check(q); err != nil {
		return refusalOfAudio(err)
	}
	file, err := r.MultipartForm.File["file"][0].Open()
	if err != nil {
		return err
	}
	defer file.Close()
	sound, err := speech.NewWAV(file)
	if err != nil {
		return refuse(http.StatusBadRequest, "file", "file: %v", err)
	}
	ctx, cancel := s.withTimeout(r.Context())
	defer cancel()
	t, err := s.transcriber.Transcribe(ctx, fileSound{sound}, q)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return refusalOfAudio(err)
	}
	var b bytes.Buffer
	if err := format.Write(&b, t); err != nil {
		return err
	}
	a := answer{w: w, writeTimeout: s.o.WriteTimeout}
	a.extendDeadline()
	w.Header().Set("Content-Type", format.ContentType)
	w.Write(b.Bytes()) // a client that is gone needs no answer
	return nil
}

// readForm parses the form of a request, once.
func readForm(r *http.Request) error {
	err := r.ParseMultipartForm(formMemory)
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return err
	}
	if err != nil {
		return refuse(http.StatusBadRequest, "", "the request is not a form: %v: want Content-Type: "+
			"multipart/form-data, with the field file", err)
	}
	return nil
}

// audioRequest reads the fields of a form into a request for a transcript, and the format of the answer. It returns an
// error for a wrong field.
func (s *Server) audioRequest(w http.ResponseWriter, form *multipart.Form) (q transcribe.Request,
	format transcribe.Format, err error) {
	field := func(name string) string {
		if list := form.Value[name]; len(list) > 0 {
			return list[0]
		}
		return ""
	}
	if err := s.passOverForm(w, form); err != nil {
		return q, format, err
	}
	if name := field("model"); name != "" && s.o.StrictModel && name != s.o.Name {
		return q, format, refuse(http.StatusNotFound, "model", "there is no model %q here: want %q", name, s.o.Name)
	}
	if n := len(form.File["file"]); n != 1 {
		return q, format, refuse(http.StatusBadRequest, "file", "the form has %d files in the field file: want one", n)
	}
	q.Language, q.Prompt = field("language"), field("prompt")
	if text := field("temperature"); text != "" {
		if q.Temperature, err = strconv.ParseFloat(text, 64); err != nil {
			return q, format, refuse(http.StatusBadRequest, "temperature", "temperature is %.40q: want a number", text)
		}
	}
	name, known := field("response_format"), false
	if name == "" {
		name = "json"
	}
	if format, known = transcribe.FormatNamed(name); !known {
		return q, format, refuse(http.StatusBadRequest, "response_format", "response_format is %.40q: want one of %s",
			name, strings.Join(transcribe.FormatNames(), ", "))
	}
	for _, key := range []string{granularities, strings.TrimSuffix(granularities, "[]")} {
		for _, g := range form.Value[key] {
			if g != "segment" && g != "word" {
				return q, format, refuse(http.StatusBadRequest, key, "%s is %.40q: want segment or word", key, g)
			}
			q.Words = q.Words || g == "word"
		}
	}
	return q, format, nil
}

// granularities is the name of a field in which a form lists the parts of text that have times.
const granularities = "timestamp_granularities[]"

// passOverForm ignores unknown fields of a form and lists them in the header Warnings, as for other requests. With
// Options.StrictFields it returns an error for the first one.
func (s *Server) passOverForm(w http.ResponseWriter, form *multipart.Form) error {
	known := append(fieldsOf(audioForm{}), strings.TrimSuffix(granularities, "[]"))
	var passed []string
	for name := range form.Value {
		if !slices.Contains(known, name) {
			passed = append(passed, name)
		}
	}
	for name := range form.File {
		if name != "file" {
			passed = append(passed, name)
		}
	}
	slices.Sort(passed)
	switch {
	case len(passed) == 0:
	case s.o.StrictFields:
		return refuse(http.StatusBadRequest, passed[0], "%.100s is not supported", passed[0])
	default:
		w.Header().Set("Warnings", fmt.Sprintf("fields passed over: %.900s", strings.Join(passed, ", ")))
	}
	return nil
}

// audioFields maps fields of transcribe.Request to the fields of a form. Translate is the path of the request. If it is
// wrong, the model translates nothing.
var audioFields = map[string]string{"Language": "language", "Prompt": "prompt", "Temperature": "temperature",
	"Translate": "model"}

// refusalOfAudio makes a refusal of an error about a request or its file.
func refusalOfAudio(err error) error {
	wrong, file := (*transcribe.RequestError)(nil), (*fileError)(nil)
	switch {
	case errors.As(err, &wrong):
		name := audioFields[wrong.Field]
		return refuse(http.StatusBadRequest, name, "%s", wrong.Of(name))
	case errors.As(err, &file):
		return refuse(http.StatusBadRequest, "file", "file: %v", file.error)
	}
	return err
}

// fileSound marks the errors of a client's file.
type fileSound struct{ *speech.WAV }

// fileError is an error of a client's file.
type fileError struct{ error }

// Read implements transcribe.Sound.
func (f fileSound) Read(samples []float32) (int, error) {
	n, err := f.WAV.Read(samples)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &fileError{err}
	}
	return n, err
}
