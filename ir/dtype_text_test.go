package ir

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestDTypeText(t *testing.T) {
	for _, want := range DTypes() {
		text, err := json.Marshal(want)
		if err != nil || string(text) != `"`+want.String()+`"` {
			t.Fatalf("marshal %s: %s, %v", want, text, err)
		}
		var have DType
		if err := json.Unmarshal(text, &have); err != nil || have != want {
			t.Errorf("unmarshal %s: %s, %v", text, have, err)
		}
	}
	for _, bad := range []DType{Invalid, numDTypes, 255} {
		if text, err := json.Marshal(bad); err == nil {
			t.Errorf("marshal of DType %d gave %s, want an error", bad, text)
		}
	}
	for _, text := range []string{`"F32"`, `"Q4_k"`, `""`, `"invalid"`, `"f32 "`, `1`, `["f32"]`} {
		have := BF16
		if err := json.Unmarshal([]byte(text), &have); err == nil || have != BF16 {
			t.Errorf("unmarshal %s: %s, %v; want an error and no change", text, have, err)
		}
	}
}

func TestDimJSON(t *testing.T) {
	tests := []struct {
		dim  Dim
		text string
	}{
		{D(0), `0`},
		{D(4096), `4096`},
		{Symbol("T", 64), `{"sym":"T","bound":64,"mul":1,"add":0}`},
		{Symbol("T", 64).Times(4).Plus(-1), `{"sym":"T","bound":64,"mul":4,"add":-1}`},
		{Symbol("T", 0), `{"sym":"T","bound":0,"mul":1,"add":0}`},
	}
	for _, tt := range tests {
		text, err := json.Marshal(Shape{tt.dim})
		if err != nil || string(text) != "["+tt.text+"]" {
			t.Errorf("marshal %s: %s, %v; want %s", tt.dim, text, err, tt.text)
		}
		var have Shape
		spaced := " [ " + strings.NewReplacer(",", " , ", ":", " : ").Replace(tt.text) + " ] "
		if err := json.Unmarshal([]byte(spaced), &have); err != nil || !have.Equal(Shape{tt.dim}) {
			t.Errorf("unmarshal %s: %v, %v; want %s", spaced, have, err, tt.dim)
		}
	}
}

func TestDimJSONRefuses(t *testing.T) {
	for _, text := range []string{
		`-1`, `1.0`, `1e2`, `"T"`, `true`, `[]`, `null`, `99999999999999999999`, `1099511627777`,
		`{}`, `{"sym":"T"}`,
		`{"sym":"","bound":64,"mul":1,"add":0}`,
		`{"sym":"T;","bound":64,"mul":1,"add":0}`,
		`{"sym":"T","bound":-1,"mul":1,"add":0}`,
		`{"sym":"T","bound":64,"mul":0,"add":0}`,
		`{"sym":"T","bound":64,"mul":-4,"add":0}`,
		`{"sym":"T","bound":1099511627776,"mul":1099511627776,"add":0}`,
		`{"sym":"T","bound":64,"mul":1,"add":9223372036854775807}`,
		`{"Sym":"T","bound":64,"mul":1,"add":0}`,
		`{"sym":"T","bound":64,"mul":1,"add":0,"add":0}`,
		`{"sym":"T","bound":64,"mul":1,"add":0,"more":1}`,
	} {
		have := D(7)
		if err := json.Unmarshal([]byte(text), &have); err == nil || have != D(7) {
			t.Errorf("unmarshal %s: %v, %v; want an error and no change", text, have, err)
		}
	}
}
