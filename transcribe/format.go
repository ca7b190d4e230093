package transcribe

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// Format is a way to write a transcript.
type Format struct {
	Name        string
	ContentType string // of HTTP

	head    string // before all segments
	segment func(i int, s Segment) string
	whole   func(t *Transcript) any // in JSON, after all segments; nil for none
}

// Formats is the table of formats. The names are OpenAI's, and "lines" has a line for each segment, with its times.
var Formats = []Format{
	{Name: "text", ContentType: "text/plain; charset=utf-8",
		segment: func(_ int, s Segment) string { return strings.TrimSpace(s.Text) + "\n" }},
	{Name: "lines", ContentType: "text/plain; charset=utf-8",
		segment: func(_ int, s Segment) string {
			return fmt.Sprintf("[%s --> %s] %s\n", clock(s.Start, "."), clock(s.End, "."), strings.TrimSpace(s.Text))
		}},
	{Name: "srt", ContentType: "application/x-subrip; charset=utf-8",
		segment: func(i int, s Segment) string {
			return fmt.Sprintf("%d\n%s --> %s\n%s\n\n", i+1, clock(s.Start, ","), clock(s.End, ","), cue(s.Text))
		}},
	{Name: "vtt", ContentType: "text/vtt; charset=utf-8", head: "WEBVTT\n\n",
		segment: func(_ int, s Segment) string {
			text := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(cue(s.Text))
			return fmt.Sprintf("%s --> %s\n%s\n\n", clock(s.Start, "."), clock(s.End, "."), text)
		}},
	{Name: "json", ContentType: "application/json", whole: func(t *Transcript) any {
		return map[string]string{"text": t.Text()}
	}},
	{Name: "verbose_json", ContentType: "application/json", whole: func(t *Transcript) any { return t.verbose() }},
}

// FormatNamed returns the format of a name.
func FormatNamed(name string) (Format, bool) {
	for _, f := range Formats {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// FormatNames lists the names of the formats.
func FormatNames() (names []string) {
	for _, f := range Formats {
		names = append(names, f.Name)
	}
	return names
}

// Begin writes the head of a transcript, before the segments.
func (f Format) Begin(w io.Writer) error {
	_, err := io.WriteString(w, f.head)
	return err
}

// Segment writes segment i.
func (f Format) Segment(w io.Writer, i int, s Segment) error {
	if f.segment == nil {
		return nil
	}
	_, err := io.WriteString(w, f.segment(i, s))
	return err
}

// End writes the end of a transcript, after the segments.
func (f Format) End(w io.Writer, t *Transcript) error {
	if f.whole == nil {
		return nil
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(f.whole(t))
}

// Write writes a transcript.
func (f Format) Write(w io.Writer, t *Transcript) error {
	err := f.Begin(w)
	for i, s := range t.Segments {
		if err == nil {
			err = f.Segment(w, i, s)
		}
	}
	if err == nil {
		err = f.End(w, t)
	}
	return err
}

// clock writes a time as subtitles have it.
func clock(d time.Duration, point string) string {
	ms := d.Milliseconds()
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3600000, ms/60000%60, ms/1000%60, point, ms%1000)
}

// cue returns a text for subtitles, in which an arrow or an empty line would begin something else.
func cue(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "-->", "->")
}

// verbose returns the form of a transcript with all that is known of segments.
func (t *Transcript) verbose() any {
	type word struct {
		Word        string  `json:"word"`
		Start       float64 `json:"start"`
		End         float64 `json:"end"`
		Probability float64 `json:"probability"`
	}
	type segment struct {
		ID          int     `json:"id"`
		Seek        int64   `json:"seek"` // of the window, in hundredths of a second
		Start       float64 `json:"start"`
		End         float64 `json:"end"`
		Text        string  `json:"text"`
		Tokens      []int32 `json:"tokens"`
		Temperature float64 `json:"temperature"`
		LogProb     float64 `json:"avg_logprob"`
		Compression float64 `json:"compression_ratio"`
		NoSpeech    float64 `json:"no_speech_prob"`
		Words       []word  `json:"words,omitempty"`
	}
	list, words := []segment{}, []word{}
	for i, s := range t.Segments {
		list = append(list, segment{i, s.Window.Milliseconds() / 10, s.Start.Seconds(), s.End.Seconds(), s.Text,
			s.Tokens, s.Temperature, s.LogProb, s.Compression, s.NoSpeech, nil})
		for _, w := range s.Words {
			words = append(words, word{w.Text, w.Start.Seconds(), w.End.Seconds(), w.Probability})
		}
		list[i].Words = words[len(words)-len(s.Words):]
	}
	task := "transcribe"
	if t.Translate {
		task = "translate"
	}
	return struct {
		Task     string    `json:"task"`
		Language string    `json:"language"`
		Duration float64   `json:"duration"`
		Text     string    `json:"text"`
		Segments []segment `json:"segments"`
		Words    []word    `json:"words,omitempty"` // of all segments
	}{task, t.Language.Name, t.Duration.Seconds(), t.Text(), list, words}
}
