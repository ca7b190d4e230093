package transcribe

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/speech"
	"github.com/vkc-go/vkc/frontend/tokenizer"
)

// Limits beyond which a window's text seems wrong, as the definition of Whisper has them.
const (
	maxCompression  = 2.4 // text that repeats itself is compressed to less
	minLogProb      = -1
	maxNoSpeech     = 0.6
	temperatureStep = 0.2
	forgetAbove     = 0.5 // text of higher temperatures is no prompt of the next window
	firstLatest     = time.Second
)

// Transcribe writes down the speech in a sound. After an error it also returns the text up to there. Requests run one
// after another.
func (m *Model) Transcribe(ctx context.Context, sound Sound, r Request) (*Transcript, error) {
	t := &Transcript{Translate: r.Translate}
	if err := m.Check(r); err != nil {
		return t, err
	}
	select {
	case m.busy <- struct{}{}:
		defer func() { <-m.busy }()
	case <-ctx.Done():
		return t, context.Cause(ctx)
	}
	j := &job{Model: m, Request: r, out: t, random: rand.New(rand.NewPCG(r.Seed, 0))}
	if r.Language != "" {
		t.Language, _ = speech.LanguageNamed(r.Language)
	} else if !m.tokens.Multilingual {
		t.Language, _ = speech.LanguageNamed("en")
	}
	if text := strings.TrimSpace(r.Prompt); text != "" {
		j.past = m.tok.Encode(" "+text, tokenizer.Options{})
	}
	return t, j.run(ctx, sound)
}

// job is a request under way.
type job struct {
	*Model
	Request
	out    *Transcript
	past   []int32 // tokens of earlier text
	random *rand.Rand
}

// minSound is the smallest number of samples that are written down: a frame of the spectrogram.
const minSound = speech.SamplesPerPosition / 2

// run transcribes the sound window by window. A window begins where the last segment of the window before ended.
func (j *job) run(ctx context.Context, sound Sound) error {
	window := make([]float32, 0, j.config.Window())
	begin, ended := int64(0), false // begin is the first sample of the window
	for {
		for !ended && len(window) < cap(window) {
			n, err := sound.Read(window[len(window):cap(window)])
			window = window[:len(window)+n]
			if errors.Is(err, io.EOF) {
				ended = true
			} else if err != nil {
				return err
			}
		}
		j.out.Duration = duration(begin + int64(len(window)))
		if len(window) < minSound {
			return nil
		}
		done, err := j.window(ctx, window, duration(begin))
		if err != nil {
			return err
		}
		window = window[:copy(window, window[done:])] // keep what is not transcribed
		begin += int64(done)
		if j.Progress != nil {
			j.Progress(begin, sound.Samples())
		}
	}
}

// duration returns the time that samples take.
func duration(samples int64) time.Duration {
	return time.Duration(samples/speech.Rate)*time.Second + time.Duration(samples%speech.Rate)*time.Second/speech.Rate
}

// window transcribes the sound of a window, which begins at time begin of the whole sound. done is the number of
// samples that it has transcribed: fewer than the window has if a segment is cut by the window's end. The next window
// begins after these samples.
func (j *job) window(ctx context.Context, sound []float32, begin time.Duration) (done int, err error) {
	if err := j.encode(ctx, sound); err != nil {
		return 0, err
	}
	if j.out.Language.Code == "" {
		if j.out.Language, err = j.detect(ctx); err != nil {
			return 0, err
		}
	}
	text, err := j.write(ctx)
	if err != nil {
		return 0, err
	}
	silent := text.noSpeech > maxNoSpeech && text.logProb < minLogProb
	if silent {
		return len(sound), nil // there is no speech: go on after the window
	}
	segments, done := j.segments(text.tokens, len(sound))
	if j.Words {
		if err := j.align(ctx, segments, len(sound)); err != nil {
			return 0, err
		}
	}
	if text.temperature > forgetAbove { // it may be wrong, and would mislead the next window
		j.past = nil
	}
	for _, s := range segments {
		s.delay(begin)
		s.Window = begin
		s.Temperature, s.LogProb, s.Compression, s.NoSpeech = text.temperature, text.logProb, text.compression,
			text.noSpeech
		if err := j.addSegment(s); err != nil {
			return 0, err
		}
	}
	j.past = slices.Clone(j.past[max(0, len(j.past)-j.maxPast()):]) // the prompt of the next window
	return done, nil
}

// encode runs the encoder for the sound of a window, padded with silence to the length that the model reads. The
// results stay in states on the device, for the decoder.
func (j *job) encode(ctx context.Context, sound []float32) error {
	padded := make([]float32, j.config.Window())
	copy(padded, sound)
	in, err := vkc.Of(padded, len(padded))
	if err != nil {
		return err
	}
	mel, err := j.mel.Run(ctx, vkc.Tensors{"samples": in})
	if err != nil {
		return err
	}
	_, err = j.listen.Run(ctx, vkc.Tensors{"mel": mel.Outputs["mel"]})
	return err
}

// delay adds d to all times of a segment.
func (s *Segment) delay(d time.Duration) {
	s.Start, s.End = s.Start+d, s.End+d
	for i := range s.Words {
		s.Words[i].Start, s.Words[i].End = s.Words[i].Start+d, s.Words[i].End+d
	}
}

// addSegment adds a segment to the transcript, and calls Request.Segment. It adds the segment's tokens to the prompt of
// the next window, unless the segment's temperature is above forgetAbove.
func (j *job) addSegment(s Segment) error {
	j.out.Segments = append(j.out.Segments, s)
	if s.Temperature <= forgetAbove {
		j.past = append(j.past, s.Tokens...)
	}
	if j.Segment == nil {
		return nil
	}
	return j.Segment(s)
}

// detect returns the most likely language of the window: the language token with the largest logit after the start
// token.
func (j *job) detect(ctx context.Context) (speech.Language, error) {
	logits, err := j.logits(ctx, []int32{j.tokens.Start}, 1)
	if err != nil {
		return speech.Language{}, err
	}
	best, most := speech.Language{}, math.Inf(-1)
	for _, l := range speech.Languages {
		if id, ok := j.tokens.Languages[l.Code]; ok && logits[id] > most {
			best, most = l, logits[id]
		}
	}
	return best, nil
}

// logits runs the decoder for the last tokens of a text of that length, and returns the logits of the next token.
func (m *Model) logits(ctx context.Context, tokens []int32, length int) ([]float64, error) {
	in, err := vkc.Of(tokens, len(tokens))
	if err != nil {
		return nil, err
	}
	exe := m.step
	if len(tokens) > 1 {
		exe = m.steps
	}
	res, err := exe.Run(ctx, vkc.Tensors{"tokens": in}, vkc.RunOptions{Symbols: map[string]int64{"S": int64(length)}})
	if err != nil {
		return nil, err
	}
	logits, err := res.Outputs["logits"].Floats()
	if err == nil && slices.ContainsFunc(logits, isUnusable) {
		err = errUnusable
	}
	return logits, err
}

// isUnusable reports whether a logit is no number, or infinite.
func isUnusable(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 1) }

// written is the output of the model for a window, and measures of its quality.
type written struct {
	tokens                                      []int32 // without the end
	temperature, logProb, compression, noSpeech float64
}

// prompt returns the tokens before the text, and the position of the one that starts the transcript.
func (j *job) prompt() (tokens []int32, start int) {
	if len(j.past) > 0 {
		tokens = append(tokens, j.tokens.Previous)
		tokens = append(tokens, j.past[max(0, len(j.past)-(j.maxPast()-1)):]...)
	}
	return append(tokens, j.controls()...), len(tokens)
}

// controls returns the tokens that start the transcript of a window.
func (j *job) controls() []int32 {
	tokens := []int32{j.tokens.Start}
	if j.tokens.Multilingual {
		task := j.tokens.Transcribe
		if j.Translate {
			task = j.tokens.Translate
		}
		tokens = append(tokens, j.tokens.Languages[j.out.Language.Code], task)
	}
	return tokens
}

// write writes the text of the window. If the text repeats itself or has a low probability, it tries again at higher
// temperatures.
func (j *job) write(ctx context.Context) (w written, err error) {
	prompt, start := j.prompt()
	logits, err := j.logits(ctx, prompt[:start+1], start+1)
	if err != nil {
		return w, err
	}
	// A token stands for a window without speech: its probability after the start token.
	noSpeech := math.Exp(logits[j.tokens.NoSpeech] - logSumExp(logits))
	if len(prompt) > start+1 {
		if logits, err = j.logits(ctx, prompt[start+1:], len(prompt)); err != nil {
			return w, err
		}
	}
	for i := 0; ; i++ {
		temperature := j.Temperature + float64(temperatureStep*float64(i))
		if temperature == 0 && j.Beams > 1 {
			w, err = j.search(ctx, len(prompt), logits)
		} else {
			w, err = j.attempt(ctx, len(prompt), slices.Clone(logits), temperature)
		}
		if err != nil {
			return w, err
		}
		w.noSpeech = noSpeech
		wrong := w.compression > maxCompression || w.logProb < minLogProb && noSpeech <= maxNoSpeech
		isHottest := temperature+temperatureStep > 1+1e-9 // the temperature is at most 1, up to rounding
		if !wrong || isHottest {
			return w, nil
		}
	}
}

// attempt writes the text of the window at a temperature, after a prompt of that length.
func (j *job) attempt(ctx context.Context, length int, logits []float64, temperature float64) (w written, err error) {
	w.temperature = temperature
	sum := 0.0
	for {
		j.allow(logits, w.tokens)
		total := logSumExp(logits)
		id := j.choose(logits, temperature)
		if math.IsInf(total, -1) {
			id = j.tokens.End // nothing is allowed
		} else {
			sum += logits[id] - total
		}
		if id == j.tokens.End {
			break
		}
		w.tokens = append(w.tokens, id)
		if len(w.tokens) >= j.maxText() || length >= j.config.Context {
			break
		}
		length++
		if logits, err = j.logits(ctx, []int32{id}, length); err != nil {
			return w, err
		}
	}
	return j.measured(w, sum), nil
}

// measured sets the measures of a text with a sum of log probabilities.
func (j *job) measured(w written, sum float64) written {
	w.logProb = sum / float64(len(w.tokens)+1)
	w.compression = compression(j.text(w.tokens))
	return w
}

// choose chooses a token: the likeliest at temperature 0, or else by chance.
func (j *job) choose(logits []float64, temperature float64) int32 {
	best, most := 0, math.Inf(-1)
	for id, v := range logits {
		if temperature > 0 && !math.IsInf(v, -1) { // the largest of these is a sample (Gumbel 1954)
			v = v/temperature - math.Log(-math.Log(1-j.random.Float64()))
		}
		if v > most {
			best, most = id, v
		}
	}
	return int32(best)
}

// allow sets the logits of tokens that must not be the next one to minus infinity. text is what was written so far.
func (j *job) allow(logits []float64, text []int32) {
	t := j.tokens
	forbid := func(from, to int32) { // without to
		for id := max(from, 0); id < min(to, int32(len(logits))); id++ {
			logits[id] = math.Inf(-1)
		}
	}
	for _, id := range t.Suppressed {
		forbid(id, id+1)
	}
	forbid(t.NoTimestamps, t.NoTimestamps+1)
	forbid(t.LastTimestamp+1, int32(len(logits)))
	for _, id := range t.Languages {
		forbid(id, id+1)
	}
	n := len(text)
	if n == 0 { // the text begins with a timestamp, no later than firstLatest
		for _, id := range t.SuppressedFirst {
			forbid(id, id+1)
		}
		forbid(0, t.Timestamps)
		forbid(t.Timestamps+int32(firstLatest*speech.Rate/time.Second/speech.SamplesPerPosition)+1, t.LastTimestamp+1)
		return
	}
	// Whether the last token is a timestamp, and whether the token before it is one or is missing.
	last, before := t.IsTimestamp(text[n-1]), n < 2 || t.IsTimestamp(text[n-2])
	switch {
	case last && before: // a segment has begun
		forbid(t.Timestamps, t.LastTimestamp+1)
	case last: // a segment has ended
		forbid(0, t.End)
	}
	for i := n - 1; i >= 0; i-- { // timestamps do not decrease, and a segment takes time
		if t.IsTimestamp(text[i]) {
			next := text[i] + 1
			if last && !before {
				next = text[i]
			}
			forbid(t.Timestamps, next)
			break
		}
	}
	// A timestamp is next if all timestamps together are likelier than any other token.
	if logSumExp(logits[t.Timestamps:t.LastTimestamp+1]) > slices.Max(logits[:t.Timestamps]) {
		forbid(0, t.Timestamps)
	}
}

// segments divides the tokens of a window with that many samples. It returns how many samples are done.
func (j *job) segments(tokens []int32, size int) (list []Segment, done int) {
	t, done := j.tokens, size
	add := func(part []int32, start, end int) {
		text, end := j.text(part), min(end, size)
		if end > start && strings.TrimSpace(text) != "" {
			list = append(list, Segment{Start: duration(int64(start)), End: duration(int64(end)), Text: text,
				Tokens: slices.Clone(part)})
		}
	}
	begin, n := 0, len(tokens)
	for i := 1; i < n; i++ {
		if t.IsTimestamp(tokens[i]) && t.IsTimestamp(tokens[i-1]) { // a segment ends, and another begins
			add(tokens[begin:i], t.Time(tokens[begin]), t.Time(tokens[i-1]))
			begin = i
		}
	}
	endsAlone := n > 1 && t.IsTimestamp(tokens[n-1]) && !t.IsTimestamp(tokens[n-2])
	switch {
	case begin > 0 && !endsAlone: // what follows the last whole segment is heard again
		if at := t.Time(tokens[begin-1]); at > 0 && at < size {
			done = at
		}
	case begin > 0:
		add(tokens[begin:], t.Time(tokens[begin]), t.Time(tokens[n-1]))
	case n > 0: // one segment
		start, end := 0, size
		for i, id := range tokens {
			if t.IsTimestamp(id) && id != t.Timestamps && i > 0 {
				end = t.Time(id)
			}
		}
		if t.IsTimestamp(tokens[0]) && t.Time(tokens[0]) < end {
			start = t.Time(tokens[0])
		}
		add(tokens, start, end)
	}
	return list, done
}

// text returns the text of tokens, without tokens that control the model.
func (m *Model) text(tokens []int32) string {
	return strings.ToValidUTF8(m.tok.Decode(slices.DeleteFunc(slices.Clone(tokens),
		func(id int32) bool { return id >= m.tokens.End })), "\uFFFD")
}

// logSumExp returns the logarithm of the sum of exponentials.
func logSumExp(list []float64) float64 {
	most := slices.Max(list)
	if math.IsInf(most, -1) {
		return most
	}
	sum := 0.0
	for _, v := range list {
		sum += math.Exp(v - most)
	}
	return most + math.Log(sum)
}

// compression returns the ratio of a text's sizes before and after compressing it.
func compression(text string) float64 {
	if text == "" {
		return 0
	}
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	io.WriteString(w, text) // to memory, which does not fail
	w.Close()
	return float64(len(text)) / float64(b.Len())
}
