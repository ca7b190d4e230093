package ir

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// storedAs gives zeros of those dtypes and shapes.
type storedAs map[string]*Data

func (s storedAs) Weight(name string) (*Data, error) {
	if d, ok := s[name]; ok {
		return d, nil
	}
	return nil, errors.New("there is no such weight")
}

func stored(t *testing.T, dt DType, dims ...int) *Data {
	t.Helper()
	d, err := NewData(dt, dims...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestFitWeights checks the graph after weights with other dtypes than declared are applied.
func TestFitWeights(t *testing.T) {
	const product = `graph "g" {
  %0 = input {name="x", dtype=f32, shape=[2,32]} : f32[2,32]
  %1 = weight {name="w", dtype=DECLARED, shape=[64,32]} : DECLARED[64,32]
  %y = matmul %0, %1 {transpose_b=true} : f32[2,64]
  output "y" %y
}`
	const embedding = `graph "g" {
  %0 = input {name="i", dtype=i32, shape=[3]} : i32[3]
  %1 = weight {name="w", dtype=q8_0, shape=[64,32]} : q8_0[64,32]
  %y = embedding %1, %0 : f32[3,32]
  %d = dequantize %1 {dtype=f16} : f16[64,32]
  output "y" %y
  output "d" %d
}`
	tests := []struct {
		name, graph string
		stored      *Data
		want        []string // the lines of the weight and of its users; none if nothing changes
	}{
		{"blocks for floats", strings.ReplaceAll(product, "DECLARED", "f32"), stored(t, Q4_0, 64, 32), []string{
			`%1 = weight {name="w", dtype=q4_0, shape=[64,32]} : q4_0[64,32]`,
			`%2 = dequantize %1 : f32[64,32]`,
			`%3 = matmul %0, %2 {transpose_b=true} : f32[2,64]`}},
		{"bf16 for f32", strings.ReplaceAll(product, "DECLARED", "f32"), stored(t, BF16, 64, 32), []string{
			`%2 = cast %1 {dtype=f32} : f32[64,32]`}},
		{"blocks for other blocks", strings.ReplaceAll(product, "DECLARED", "q8_0"), stored(t, Q4_0, 64, 32), []string{
			`%1 = weight {name="w", dtype=q4_0, shape=[64,32]} : q4_0[64,32]`,
			`%2 = matmul %0, %1 {transpose_b=true} : f32[2,64]`}},
		{"f16 for blocks", strings.ReplaceAll(product, "DECLARED", "q8_0"), stored(t, F16, 64, 32), []string{
			`%2 = cast %1 {dtype=f32} : f32[64,32]`,
			`%3 = matmul %0, %2 {transpose_b=true} : f32[2,64]`}},
		{"f32 for blocks that are looked up and decoded", embedding, stored(t, F32, 64, 32), []string{
			`%2 = embedding %1, %0 : f32[3,32]`,
			`%3 = cast %1 {dtype=f16} : f16[64,32]`}},
		{"as declared", strings.ReplaceAll(product, "DECLARED", "f32"), stored(t, F32, 64, 32), nil},
		{"another shape", strings.ReplaceAll(product, "DECLARED", "f32"), stored(t, F16, 32, 64), nil},
		{"integers", strings.ReplaceAll(product, "DECLARED", "f32"), stored(t, I32, 64, 32), nil},
		{"missing", strings.ReplaceAll(product, "DECLARED", "f32"), nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g, err := Parse(tt.graph)
			if err != nil {
				t.Fatal(err)
			}
			src := storedAs{}
			if tt.stored != nil {
				src["w"] = tt.stored
			}
			fitted, changed, err := FitWeights(g, src)
			if err != nil {
				t.Fatal(err)
			}
			unusable := map[string]string{"another shape": "f16[32,64]", "integers": "i32[64,32]",
				"missing": "there is no"}
			switch err := CheckWeights(fitted, src); {
			case unusable[tt.name] == "" && err != nil:
				t.Errorf("a fitted weight cannot be used: %v", err)
			case unusable[tt.name] != "" && (err == nil || !strings.Contains(err.Error(), unusable[tt.name]) ||
				!strings.Contains(err.Error(), `1 of 1 weights cannot be used: weight "w"`)):
				t.Errorf("the error is %v, want one with %q", err, unusable[tt.name])
			}
			if tt.want == nil {
				if changed != 0 || fitted != g {
					t.Fatalf("%d weights changed:\n%s", changed, fitted)
				}
				return
			}
			if err := fitted.Verify(); err != nil {
				t.Fatal(err)
			}
			text := fitted.String()
			for _, line := range tt.want {
				if !strings.Contains(text, line+"\n") {
					t.Errorf("no line %s in\n%s", line, text)
				}
			}
			if changed != 1 {
				t.Errorf("%d weights changed, want 1", changed)
			}
		})
	}
}

// TestWeightErrorIsShort: a model has hundreds of weights, and an error has a table of ten.
func TestWeightErrorIsShort(t *testing.T) {
	e := &WeightError{Total: 74}
	for i := range 57 {
		e.Bad = append(e.Bad, &BadWeight{Name: fmt.Sprintf("w%d", i), Want: "f32[4]", Given: "i32[40]"})
	}
	e.Bad[1].Err = errors.New("gone")
	lines := strings.Split(e.Error(), "\n")
	for i, want := range map[int]string{0: `57 of 74 weights cannot be used:`, 1: "  WEIGHT  WANTED  GIVEN",
		2: "  w0      f32[4]  i32[40]", 3: "  w1      f32[4]  gone", 12: "  and 47 more"} {
		if len(lines) != 13 || lines[i] != want {
			t.Fatalf("line %d is not %q:\n%s", i, want, e)
		}
	}
	e.Bad = e.Bad[1:2]
	if want := `1 of 74 weights cannot be used: weight "w1" (f32[4]): gone`; e.Error() != want {
		t.Errorf("got %v, want %s", e, want)
	}
}
