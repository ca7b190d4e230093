package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/transcribe"
)

type transcribeFlags struct {
	model      string
	options    transcribe.Options
	request    transcribe.Request
	format     string
	timestamps bool
}

// transcribeFormats maps the values of --format to the formats of package transcribe.
var transcribeFormats = map[string]string{"text": "text", "srt": "srt", "vtt": "vtt", "json": "verbose_json"}

// transcribeFormatNames lists the values of --format.
var transcribeFormatNames = []string{"text", "srt", "vtt", "json"}

// transcribeCommand declares the command vkc transcribe and its flags.
func (a *app) transcribeCommand() *cobra.Command {
	var f transcribeFlags
	cmd := &cobra.Command{
		Use:   "transcribe FILE.wav -m MODEL",
		Short: "Transcribe a sound file with a Whisper model",
		Long: `Transcribe a sound file with a Whisper model. vkc transcribe prints a line of text for each sentence or
so, as soon as the model has written it. FILE is a WAV file of any rate and number of channels, or - for standard input.
MODEL is a Hugging Face folder, a file of whisper.cpp such as ggml-base.bin, or a GGUF file that vkc quantize made from
one of them.

The model hears 30 seconds at a time. If its text repeats itself, or the model gives it a low probability, vkc
transcribe tries again at a higher temperature. --words aligns words with the sound by the model's attention.`,
		Example: `  vkc transcribe TALK.wav -m MODEL --timestamps
  vkc transcribe TALK.wav -m MODEL --language de --translate --format srt > TALK.srt
  vkc transcribe - -m MODEL --format json --words < TALK.wav`,
		Args: exactArgs("FILE.wav"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.transcribe(cmd.Context(), &f, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.model, "model", "m", "", "the `FILE` of the model, or its Hugging Face folder")
	flags.StringVar(&f.request.Language, "language", "", "the spoken `LANGUAGE`, such as de or german (default the "+
		"most likely one of the first 30 seconds)")
	flags.BoolVar(&f.request.Translate, "translate", false, "write the text in English")
	flags.StringVarP(&f.request.Prompt, "prompt", "p", "", "`TEXT` that might precede the speech, such as names and "+
		"their spelling")
	flags.StringVar(&f.format, "format", "text", "print text, subtitles (srt, vtt), or all results (json)")
	flags.BoolVar(&f.timestamps, "timestamps", false, "begin each line of text with its times")
	flags.BoolVar(&f.request.Words, "words", false, "with --format json, the times of each word")
	flags.Float64Var(&f.request.Temperature, "temp", 0, "temperature `T` of the first attempt, up to 1; 0 means the "+
		"most likely text")
	flags.IntVar(&f.request.Beams, "beam-size", 1, "at temperature 0, search with `N` texts at once for the most "+
		"likely one; 0 means 1")
	flags.Uint64Var(&f.request.Seed, "seed", 0, "the `SEED` of temperatures above 0")
	flags.StringVarP(&f.options.Device, "device", "d", "auto", "as for vkc run")
	flags.StringVar(&f.options.Precision, "precision", "", precisionHelp+" (default "+transcribe.DefaultPrecision+
		" on a GPU, exact on the CPU)")
	return cmd
}

// check returns an error for wrong flags, before any file is opened, and otherwise the output format.
func (f *transcribeFlags) check() (transcribe.Format, error) {
	if f.model == "" {
		return transcribe.Format{}, usagef("transcribe: -m MODEL is missing; see vkc transcribe --help")
	}
	if err := oneOf("format", f.format, transcribeFormatNames); err != nil {
		return transcribe.Format{}, err
	}
	if f.options.Precision != "" {
		if err := vkc.CheckPrecision(f.options.Precision); err != nil {
			return transcribe.Format{}, usagef("--precision: %w", err)
		}
	}
	if f.request.Words && f.format != "json" {
		return transcribe.Format{}, usagef("--words and --format %s: only --format json has the times of "+
			"words", f.format)
	}
	name := transcribeFormats[f.format]
	if f.timestamps {
		if f.format != "text" {
			return transcribe.Format{}, usagef("--timestamps and --format %s: this format always has times", f.format)
		}
		name = "lines"
	}
	format, _ := transcribe.FormatNamed(name)
	return format, nil
}

// requestFlags maps fields of transcribe.Request to the flags that set them.
var requestFlags = map[string]string{"Language": "--language", "Translate": "--translate",
	"Temperature": "--temp", "Prompt": "--prompt", "Beams": "--beam-size"}

// transcribe runs vkc transcribe: it prints the text of a sound, segment by segment.
func (a *app) transcribe(ctx context.Context, f *transcribeFlags, path string) (err error) {
	format, err := f.check()
	if err != nil {
		return err
	}
	var in io.Reader
	if path == "-" {
		in = standardInput(ctx)
	} else {
		file, err := inputfile.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	sound, err := speech.NewWAV(in)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	loading := a.progress("loading")
	f.options.Progress = loading.stage
	m, err := transcribe.Open(ctx, f.model, f.options)
	loading.end()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := m.Check(f.request); err != nil {
		if wrong := (*transcribe.RequestError)(nil); errors.As(err, &wrong) {
			return usagef("%s", wrong.Of(requestFlags[wrong.Field]))
		}
		return err
	}
	a.note("%s", m.Why())
	if err := format.Begin(a.stdout); err != nil {
		return err
	}
	bar := a.progress("transcribing, seconds")
	bar.shown = bar.shown && (f.format == "json" || terminalOf(os.Stdout) == nil) // else the text shows how far it is
	defer bar.end()
	segments := 0
	f.request.Segment = func(s transcribe.Segment) error {
		err := format.Segment(a.stdout, segments, s)
		segments++
		return errors.Join(err, a.stdout.Flush())
	}
	f.request.Progress = func(done, all int64) { bar.report(done/speech.Rate, max(done, all)/speech.Rate) }
	t, err := m.Transcribe(ctx, namedSound{sound, path}, f.request)
	if err != nil {
		return err
	}
	return format.End(a.stdout, t)
}

// namedSound is a sound with its file's name in errors.
type namedSound struct {
	*speech.WAV
	path string
}

// Read implements transcribe.Sound.
func (s namedSound) Read(samples []float32) (int, error) {
	n, err := s.WAV.Read(samples)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%s: %w", s.path, err)
	}
	return n, err
}
