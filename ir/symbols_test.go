package ir

import (
	"maps"
	"strings"
	"testing"
)

// symbolGraph has inputs x f32[T,8] and y f32[4*T+1], and symbol P that only
// a slice limit uses.
func symbolGraph(t *testing.T) *Graph {
	t.Helper()
	g := NewGraph("symbols")
	T := Symbol("T", 16)
	add := func(name string, s Shape) {
		if _, err := g.Add(OpInput, nil, []Attr{{"name", name}, {"dtype", F32}, {"shape", s}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	add("x", Shape{T, D(8)})
	add("y", Shape{T.Times(4).Plus(1)})
	if err := g.DeclareSymbol("P", 64); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestBindSymbols(t *testing.T) {
	p := map[string]int64{"P": 7}
	for _, tc := range []struct {
		name     string
		x, y     []int
		explicit map[string]int64
		want     map[string]int64
		err      string // a part of the error
	}{
		{"inferred", []int{3, 8}, []int{13}, p, map[string]int64{"T": 3, "P": 7}, ""},
		{"zero", []int{0, 8}, []int{1}, p, map[string]int64{"T": 0, "P": 7}, ""},
		{"given and inferred", []int{3, 8}, []int{13}, map[string]int64{"T": 3, "P": 0}, map[string]int64{"T": 3, "P": 0}, ""},
		{"given otherwise", []int{3, 8}, []int{13}, map[string]int64{"T": 4, "P": 0}, nil, "makes symbol T 3, but it is 4 (by name)"},
		{"conflict", []int{3, 8}, []int{17}, p, nil, `makes symbol T 4, but it is 3 (axis 0 of input "x")`},
		{"no solution", []int{3, 8}, []int{14}, p, nil, "but no T makes 4*T+1 that number"},
		{"below", []int{3, 8}, []int{0}, p, nil, "but no T makes 4*T+1 that number"},
		{"over bound", []int{17, 8}, []int{69}, p, nil, "T is at most 16"},
		{"static", []int{3, 9}, []int{13}, p, nil, `axis 1 of input "x" is 9, not 8`},
		{"rank", []int{3}, []int{13}, p, nil, "rank 1 is not 2"},
		{"missing", nil, []int{13}, p, nil, `input "x" is missing, want f32[T,8]`},
		{"unvalued", []int{3, 8}, []int{13}, nil, nil, "symbol P has no value"},
		{"unknown symbol", []int{3, 8}, []int{13}, map[string]int64{"Q": 1}, nil, "unknown symbol Q: the graph has P, T"},
		{"explicit over bound", []int{3, 8}, []int{13}, map[string]int64{"P": 65}, nil, "outside 0..64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dims := map[string][]int{"y": tc.y}
			if tc.x != nil {
				dims["x"] = tc.x
			}
			got, err := BindSymbols(symbolGraph(t), dims, tc.explicit)
			switch {
			case tc.err == "" && err != nil:
				t.Fatal(err)
			case tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)):
				t.Fatalf("error %v, want one with %q", err, tc.err)
			case tc.err == "" && !maps.Equal(got, tc.want):
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestBindInputs(t *testing.T) {
	data := func(t DType, dims ...int) *Data {
		d, _ := NewData(t, dims...)
		return d
	}
	y := data(F32, 13)
	for _, tc := range []struct {
		name string
		in   map[string]*Data
		err  string
	}{
		{"good", map[string]*Data{"x": data(F32, 3, 8), "y": y}, ""},
		{"dtype", map[string]*Data{"x": data(F64, 3, 8), "y": y}, `input "x" is f64[3 8], want f32[T,8]`},
		{"nil", map[string]*Data{"x": nil, "y": y}, `input "x" is nil, want f32[T,8]`},
		{"bytes", map[string]*Data{"x": {DType: F32, Dims: []int{3, 8}, Bytes: make([]byte, 95)}, "y": y}, "needs 96 bytes, have 95"},
		{"unknown", map[string]*Data{"z": y}, `unknown input "z": the graph has x, y`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := BindInputs(symbolGraph(t), tc.in, map[string]int64{"P": 1})
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}
