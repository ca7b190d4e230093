package generate

import (
	"reflect"
	"strings"
	"testing"
)

// TestZero: of every number that options have, 0 is a number like any other, or has no other meaning than the default,
// or it is a pointer that need not be set. A field of a new one belongs into one of these lists.
func TestZero(t *testing.T) {
	zero := "Temperature MinP PresencePenalty FrequencyPenalty Seed Likeliest Tokens MinTokens XTCProbability " +
		"XTCThreshold"
	// None of these is 0 by itself.
	unset := "Sigmas Typical TopK RepeatPenalty MaxTokens Context Cache Parallel Positions GPUMemory Ahead"
	pointers := "TopP Keep"
	kinds := map[string]string{}
	for list, kind := range map[string]string{zero: "number", unset: "number", pointers: "pointer"} {
		for name := range strings.FieldsSeq(list) {
			kinds[name] = kind
		}
	}
	for _, v := range []any{Sampling{}, Options{}, Speculation{}} {
		for i := range reflect.TypeOf(v).NumField() {
			f, kind := reflect.TypeOf(v).Field(i), ""
			switch {
			case f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() != reflect.Struct:
				kind = "pointer"
			case f.Type.Kind() >= reflect.Int && f.Type.Kind() <= reflect.Float64:
				kind = "number"
			}
			if want := kinds[f.Name]; kind != want {
				t.Errorf("%T.%s is a %q, want %q: what does 0 mean?", v, f.Name, kind, want)
			}
			delete(kinds, f.Name)
		}
	}
	if len(kinds) > 0 {
		t.Errorf("there are no %v", kinds)
	}
}

// TestTopPZero: with a probability of 0 the likeliest token is taken, whatever the temperature; unset it is not.
func TestTopPZero(t *testing.T) {
	m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 32})
	prompt := []int32{1, 2, 3}
	want := answerOf(t, m, prompt, Sampling{MaxTokens: 12})
	for seed := range uint64(4) {
		got := answerOf(t, m, prompt, Sampling{MaxTokens: 12, Temperature: 3, TopP: new(0.0), TopK: 8, Seed: seed})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("seed %d: %v, want %v", seed, got, want)
		}
	}
	if got := answerOf(t, m, prompt, Sampling{MaxTokens: 12, Temperature: 3}); reflect.DeepEqual(got, want) {
		t.Errorf("without a probability: the likeliest tokens %v", got)
	}
}

// TestKeepZero: none of the first tokens stay where 0 is said, and a few where nothing is.
func TestKeepZero(t *testing.T) {
	for _, tt := range []struct {
		keep *int
		want int
	}{{nil, defaultKeep}, {new(0), 0}, {new(2), 2}} {
		m := openModel(t, tinyModel(t), Options{Device: "cpu", Context: 32, ContextShift: true, Keep: tt.keep})
		if m.keep != tt.want {
			t.Errorf("%d tokens stay, want %d", m.keep, tt.want)
		}
	}
}
