package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/vkc-go/vkc/grammar"
)

// Sampling says how the next token is chosen from the model's logits. The zero
// value takes the likeliest one.
type Sampling struct {
	// Temperature divides the logits: 1 samples as the model says, less makes likely
	// tokens likelier, 0 takes the likeliest.
	Temperature float64
	TopK        int     // only the K likeliest tokens; 0 means all
	TopP        float64 // only the likeliest tokens that make up this probability; 0 means all
	MinP        float64 // only tokens at least this probable, the likeliest being 1; 0 means all
	// RepeatPenalty divides what speaks for tokens that were among the last 64; 0 and
	// 1 change nothing.
	RepeatPenalty float64
	Seed          uint64 // equal seeds give equal tokens
	MaxTokens     int    // 0 means as many as fit
	// Grammar is what the answer must be: no other tokens are chosen, and the answer ends where nothing may follow. An
	// answer of MaxTokens may still be cut short. Nil allows every text.
	Grammar   *grammar.Grammar
	Logprobs  bool // whether tokens come with the logarithms of their probability
	Likeliest int  // with Logprobs, so many of the likeliest tokens come too
}

// recentTokens is how far back a token is a repetition.
const recentTokens = 64

// Check says what is wrong with a Sampling.
func (s Sampling) Check() error {
	for _, v := range []struct {
		name     string
		value    float64
		low, top float64
	}{
		{"Temperature", s.Temperature, 0, 100}, {"TopP", s.TopP, 0, 1}, {"MinP", s.MinP, 0, 1},
		{"RepeatPenalty", s.RepeatPenalty, 0, 100},
	} {
		if !(v.value >= v.low && v.value <= v.top) {
			return fmt.Errorf("generate: %s is %v: want %v to %v", v.name, v.value, v.low, v.top)
		}
	}
	if s.TopK < 0 || s.MaxTokens < 0 || s.Likeliest < 0 {
		return fmt.Errorf("generate: TopK is %d, MaxTokens %d and Likeliest %d: want at least 0", s.TopK, s.MaxTokens,
			s.Likeliest)
	}
	return nil
}

// likeliest reports whether the likeliest token is taken, whatever its logit.
func (s Sampling) likeliest() bool {
	if s.RepeatPenalty == 1 {
		s.RepeatPenalty = 0
	}
	s.TopK, s.TopP, s.MinP, s.Seed, s.MaxTokens = 0, 0, 0, 0, 0
	return s == Sampling{}
}

// candidate is a token that may come next.
type candidate struct {
	id    int32
	logit float64
	p     float64 // of the likeliest, relative to it
}

// negligible is the probability, relative to the likeliest token's, of tokens that
// sums in float64 do not see.
const negligible = 1e-17

// choose returns the next token. It changes the logits.
func (s Sampling) choose(logits []float32, recent []int32, random *rand.Rand) (int32, error) {
	s.penalize(logits, recent)
	best := 0
	for i, v := range logits {
		if v > logits[best] || logits[best] != logits[best] {
			best = i
		}
	}
	if len(logits) == 0 || math.IsNaN(float64(logits[best])) {
		return 0, fmt.Errorf("generate: the model gave no numbers for the next token")
	}
	if s.Temperature == 0 {
		return int32(best), nil
	}
	list := s.likely(logits, float64(logits[best]))
	total := 0.0
	for i := range list {
		list[i].p = math.Exp((list[i].logit - list[0].logit) / s.Temperature)
		total += list[i].p
	}
	at := random.Float64() * total
	for _, c := range list {
		if at -= c.p; at < 0 {
			return c.id, nil
		}
	}
	return list[0].id, nil
}

func (s Sampling) penalize(logits []float32, recent []int32) {
	if s.RepeatPenalty == 0 || s.RepeatPenalty == 1 {
		return
	}
	recent = slices.Clone(recent[max(0, len(recent)-recentTokens):])
	slices.Sort(recent)
	for _, id := range slices.Compact(recent) {
		if int(id) < len(logits) && logits[id] > 0 {
			logits[id] /= float32(s.RepeatPenalty)
		} else if int(id) < len(logits) {
			logits[id] *= float32(s.RepeatPenalty)
		}
	}
}

// likely returns the tokens that may be chosen, the likeliest first.
func (s Sampling) likely(logits []float32, best float64) (list []candidate) {
	for i, v := range logits {
		p := math.Exp(float64(v) - best)
		if p >= s.MinP && math.Exp((float64(v)-best)/s.Temperature) >= negligible {
			list = append(list, candidate{int32(i), float64(v), p})
		}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(b.logit, a.logit) })
	if s.TopK > 0 {
		list = list[:min(s.TopK, len(list))]
	}
	if s.TopP > 0 && s.TopP < 1 {
		total := 0.0
		for _, c := range list {
			total += c.p
		}
		sum := 0.0
		for i, c := range list {
			if sum += c.p; sum >= s.TopP*total {
				return list[:i+1]
			}
		}
	}
	return list
}
