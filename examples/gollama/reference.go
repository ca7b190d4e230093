package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
)

//go:embed reference.json
var referenceJSON []byte

// prompt is a text to complete, with the expected continuation if known.
type prompt struct {
	Text   string       `json:"prompt"`
	Tokens []int32      `json:"tokens"`
	Top    [][2]float64 `json:"first_logits_top16"` // token and logit, largest first
}

// references returns the prompts in reference.json.
func references() ([]prompt, error) {
	var file struct{ Prompts []prompt }
	if err := json.Unmarshal(referenceJSON, &file); err != nil {
		return nil, fmt.Errorf("reference.json: %w", err)
	}
	return file.Prompts, nil
}

// comparison is the result of comparing logits with reference.json.
type comparison struct {
	want, got int // the likeliest token
	n         int // logits compared
	worst     float64
}

// compare compares logits with those of a prompt in reference.json.
func compare(logits []float64, p prompt) comparison {
	c := comparison{want: int(p.Top[0][0]), got: best(logits, 1)[0].token, n: len(p.Top)}
	for _, t := range p.Top {
		diff := math.Inf(1)
		if id := int(t[0]); id < len(logits) {
			diff = math.Abs(logits[id] - t[1])
		}
		if !(diff <= c.worst) { // NaN is worst of all
			c.worst = diff
		}
	}
	return c
}

// String describes the comparison in one line.
func (c comparison) String() string {
	top := "top-1 equal"
	if c.got != c.want {
		top = fmt.Sprintf("top-1 is token %d, not %d", c.got, c.want)
	}
	return fmt.Sprintf("%s, worst difference of the %d largest logits %.2g", top, c.n, c.worst)
}

// check returns an error if another token is the likeliest, or if a logit differs by more than the tolerance, unless
// that is 0.
func (c comparison) check(tolerance float64) error {
	if c.got != c.want || tolerance > 0 && !(c.worst <= tolerance) {
		return fmt.Errorf("the logits are not those of reference.json: %v, allowed %.2g", c, tolerance)
	}
	return nil
}
