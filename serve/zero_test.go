package serve

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/generate"
)

// TestZero has each number of a request be an explicit 0, which is no field that is left out: it is 0, or refused, or
// has no other meaning.
func TestZero(t *testing.T) {
	type check func(generate.Sampling) bool
	refused, alike := check(nil), check(func(generate.Sampling) bool { return true })
	table := map[string]check{
		"max_tokens": refused, "max_completion_tokens": refused, "repetition_penalty": refused, "n": refused,
		"best_of": refused, "repeat_penalty": refused, "n_predict": refused,
		"seed":        func(s generate.Sampling) bool { return s.Seed == 0 },
		"temperature": func(s generate.Sampling) bool { return s.Temperature == 0 },
		"top_p":       func(s generate.Sampling) bool { return s.TopP != nil && *s.TopP == 0 },
		"top_k":       alike, "min_p": alike, "presence_penalty": alike, "frequency_penalty": alike,
		"top_logprobs": alike, "thinking_budget_tokens": alike, "min_tokens": alike, "typical_p": alike,
		"top_n_sigma": alike, "n_probs": alike, "mirostat": func(s generate.Sampling) bool { return s.Mirostat == nil },
		"mirostat_tau": alike, "mirostat_eta": alike, "dry_multiplier": alike,
		"dry_base": refused, "dry_allowed_length": alike, "dry_penalty_last_n": alike, "xtc_probability": alike,
		"xtc_threshold": func(s generate.Sampling) bool { return s.XTCThreshold == 0 },
	}
	numbers := 0
	for i := range reflect.TypeFor[request]().NumField() {
		f := reflect.TypeFor[request]().Field(i)
		kind := f.Type.Kind()
		if kind == reflect.Pointer {
			kind = f.Type.Elem().Kind()
		}
		if kind != reflect.Int && kind != reflect.Int64 && kind != reflect.Float64 {
			continue
		}
		numbers++
		name := f.Tag.Get("json")
		holds, ok := table[name]
		if !ok {
			t.Errorf("what does 0 mean for %s?", name)
			continue
		}
		var q request
		if err := json.Unmarshal([]byte(`{"`+name+`": 0}`), &q); err != nil {
			t.Fatal(err)
		}
		j, err := q.job([]int32{1})
		if holds == nil && (err == nil || !strings.Contains(err.Error(), name+" is 0: want")) {
			t.Errorf("%s 0: %v, want it refused", name, err)
		}
		if holds != nil && (err != nil || !holds(j.sampling)) {
			t.Errorf("%s 0: %+v, %v", name, j.sampling, err)
		}
	}
	if numbers != len(table) {
		t.Errorf("a request has %d numbers, the table %d", numbers, len(table))
	}
	if j, err := (&request{}).job([]int32{1}); err != nil || j.sampling.TopP != nil || j.sampling.Temperature != 1 {
		t.Errorf("no number: %+v, %v", j.sampling, err)
	}
}
