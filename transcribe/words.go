package transcribe

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/speech"
)

// Word is a word of a segment, with punctuation.
type Word struct {
	Start, End  time.Duration
	Text        string  // it begins with a space, unless the language has none between words
	Probability float64 // the mean of its tokens'
	tokens      int
}

// align sets the words of the segments of a window with size samples of sound. It computes times of words as Whisper's
// published program does: by a path of least cost through the attention of heads that follow the sound (dynamic time
// warping), from the first token and position to the last ones.
func (j *job) align(ctx context.Context, segments []Segment, size int) error {
	var text []int32
	for _, s := range segments {
		text = append(text, j.spoken(s.Tokens)...)
	}
	prompt := j.controls()
	prompt = append(prompt, j.tokens.NoTimestamps)
	tokens := slices.Concat(prompt, text, []int32{j.tokens.End})
	positions := (size + speech.SamplesPerPosition - 1) / speech.SamplesPerPosition
	if len(text) == 0 || positions < speech.MinAligned || len(tokens) > j.config.Context {
		return nil
	}
	attention, chances, err := j.attention(ctx, tokens, positions)
	if err != nil {
		return err
	}
	// attention is [tokens, positions], and chances [tokens]. The row of NoTimestamps belongs to the first text token,
	// and the row of the last text token to the end.
	first, rows := len(prompt)-1, len(text)+1
	starts := jumps(warp(attention[first*positions:][:rows*positions], rows, positions), rows)
	words := j.timedWords(text, starts, chances[first:])
	shorten(words)
	words = joinPunctuation(words)
	for i := range segments {
		left := len(j.spoken(segments[i].Tokens))
		for left > 0 && len(words) > 0 {
			w := words[0]
			words, left = words[1:], left-w.tokens
			segments[i].Words = append(segments[i].Words, w)
		}
	}
	return nil
}

// timedWords returns the words of a text with their times and probabilities. starts has the position at which each
// token begins, and at last the end of the text. chances has the log probability of each token.
func (j *job) timedWords(text []int32, starts []int, chances []float64) (words []Word) {
	at := func(token int) time.Duration { return duration(int64(starts[token]) * speech.SamplesPerPosition) }
	token := 0
	for _, word := range j.words(text) {
		sum := 0.0
		for i := range word.tokens {
			sum += math.Exp(chances[token+i])
		}
		word.Probability = sum / float64(word.tokens)
		word.Start, word.End = at(token), at(token+word.tokens)
		token += word.tokens
		words = append(words, word)
	}
	return words
}

// spoken returns the tokens of text among tokens.
func (m *Model) spoken(tokens []int32) (list []int32) {
	for _, id := range tokens {
		if id < m.tokens.End {
			list = append(list, id)
		}
	}
	return list
}

// attention runs the graph of speech.Align, which it compiles at the first call. It returns the attention of each token
// to each of the first positions, and the log probability of each token's successor.
func (m *Model) attention(ctx context.Context, tokens []int32, positions int) (attention, chances []float64,
	err error) {
	if m.aligner == nil {
		g, err := speech.Align(m.config, m.tokens.End, m.cache)
		if m.aligner, err = m.load(ctx, g, err, m.precision, m.options, m.listen); err != nil {
			return nil, nil, err
		}
	}
	in, err := vkc.Of(tokens, len(tokens))
	if err != nil {
		return nil, nil, err
	}
	// The last token has no successor, so its own id takes that place, and its result is not used.
	next, err := vkc.Of(append(slices.Clone(tokens[1:]), tokens[len(tokens)-1]), len(tokens))
	if err != nil {
		return nil, nil, err
	}
	res, err := m.aligner.Run(ctx, vkc.Tensors{"tokens": in, "next": next},
		vkc.RunOptions{Symbols: map[string]int64{"F": int64(positions)}})
	if err != nil {
		return nil, nil, err
	}
	if attention, err = res.Outputs["attention"].Floats(); err == nil {
		chances, err = res.Outputs["chances"].Floats()
	}
	wrong := func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }
	if err == nil && slices.ContainsFunc(attention, wrong) {
		err = errUnusable
	}
	return attention, chances, err
}

// errUnusable is the error of results that are no finite numbers.
var errUnusable = errors.New("transcribe: the model computes NaN or infinity: its weights are wrong, or need more " +
	"precision")

// warp returns the path of the largest sum of gains [rows, columns] from the first row and column to the last ones. A
// step goes to the next row, or the next column, or both.
func warp(gains []float64, rows, columns int) (path [][2]int) {
	// cost and step are [rows+1, columns+1]. At (r, c) they have the least cost of a path to gains at (r-1, c-1), where
	// a gain is a negative cost, and the last step of this path. Row 0 and column 0 are before the beginning.
	cost := make([]float64, (rows+1)*(columns+1))
	step := make([]byte, len(cost))
	at := func(r, c int) int { return r*(columns+1) + c }
	for i := range cost {
		cost[i] = math.Inf(1)
	}
	cost[0] = 0
	const both, down, right = 0, 1, 2
	for c := 1; c <= columns; c++ {
		for r := 1; r <= rows; r++ {
			byBoth, byDown, byRight := cost[at(r-1, c-1)], cost[at(r-1, c)], cost[at(r, c-1)]
			least, how := byRight, byte(right)
			switch {
			case byBoth < byDown && byBoth < byRight:
				least, how = byBoth, both
			case byDown < byBoth && byDown < byRight:
				least, how = byDown, down
			}
			cost[at(r, c)], step[at(r, c)] = least-gains[(r-1)*columns+c-1], how
		}
	}
	for r, c := rows, columns; r > 0 || c > 0; {
		path = append(path, [2]int{r - 1, c - 1})
		how := step[at(r, c)]
		if r == 0 {
			how = right
		} else if c == 0 {
			how = down
		}
		if how != right {
			r--
		}
		if how != down {
			c--
		}
	}
	slices.Reverse(path)
	return path
}

// jumps returns the column in which a path reaches each of its rows.
func jumps(path [][2]int, rows int) []int {
	list := make([]int, rows)
	for i, step := range path {
		if i == 0 || step[0] != path[i-1][0] {
			list[step[0]] = step[1]
		}
	}
	return list
}

// unspaced lists the languages that write no spaces between words.
var unspaced = []string{"zh", "ja", "th", "lo", "my", "yue"}

// words divides tokens of text into words. A word begins with a token that begins with a space. In languages without
// spaces each token of whole characters is a word. A punctuation sign is a word of its own.
func (j *job) words(text []int32) (list []Word) {
	for i := 0; i < len(text); {
		n := 1 // tokens of whole characters
		part := j.piece(text[i : i+1])
		for !utf8.ValidString(part) && i+n < len(text) {
			n++
			part = j.piece(text[i : i+n])
		}
		i += n
		alone := strings.Contains(asciiSigns, strings.TrimSpace(part))
		if len(list) > 0 && !strings.HasPrefix(part, " ") && !alone && !slices.Contains(unspaced, j.out.Language.Code) {
			last := &list[len(list)-1]
			last.Text, last.tokens = last.Text+part, last.tokens+n
			continue
		}
		list = append(list, Word{Text: part, tokens: n})
	}
	for i := range list {
		list[i].Text = strings.ToValidUTF8(list[i].Text, "\uFFFD")
	}
	return list
}

// piece returns the bytes of tokens.
func (m *Model) piece(tokens []int32) string {
	var b strings.Builder
	for _, id := range tokens {
		b.WriteString(m.tok.Piece(id))
	}
	return b.String()
}

const (
	asciiSigns   = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	sentenceEnds = ".。!！?？"
	openingSigns = "\"'“¿([{-"
	closingSigns = "\"'.。,，!！?？:：”)]}、"
	longestWord  = 700 * time.Millisecond // of the median
)

// shorten limits the time of the last and of the first word of a sentence to twice the median of all words: during the
// pause between two sentences the model attends to one of these words.
func shorten(words []Word) {
	var times []time.Duration
	for _, w := range words {
		if w.End > w.Start {
			times = append(times, w.End-w.Start)
		}
	}
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	median := (times[(len(times)-1)/2] + times[len(times)/2]) / 2
	most := 2 * min(median, longestWord)
	ends := func(text string) bool { return text != "" && strings.Contains(sentenceEnds, text) }
	for i := range words {
		if i == 0 || words[i].End-words[i].Start <= most {
			continue
		}
		if ends(words[i].Text) {
			words[i].End = words[i].Start + most
		} else if ends(words[i-1].Text) {
			words[i].Start = words[i].End - most
		}
	}
}

// joinPunctuation joins signs to the words after or before them.
func joinPunctuation(words []Word) (list []Word) {
	for i := len(words) - 2; i >= 0; i-- { // signs that open, from the end
		sign := words[i].Text
		if body := strings.TrimPrefix(sign, " "); body != sign && body != "" && strings.Contains(openingSigns, body) {
			next := &words[i+1]
			next.Text, next.tokens = sign+next.Text, next.tokens+words[i].tokens
			words = slices.Delete(words, i, i+1)
		}
	}
	for _, w := range words {
		if n := len(list); n > 0 && !strings.HasSuffix(list[n-1].Text, " ") && w.Text != "" &&
			strings.Contains(closingSigns, w.Text) {
			list[n-1].Text, list[n-1].tokens = list[n-1].Text+w.Text, list[n-1].tokens+w.tokens
			continue
		}
		list = append(list, w)
	}
	return list
}
