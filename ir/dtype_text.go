package ir

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MarshalText returns the name of the type, so that JSON has "f32" rather than a number that may change between
// versions. Invalid is an error.
func (t DType) MarshalText() ([]byte, error) {
	if !t.Valid() {
		return nil, fmt.Errorf("%s cannot be the dtype of a tensor", t)
	}
	return []byte(t.String()), nil
}

// UnmarshalText parses the output of MarshalText. Unlike ParseDType, which parses user input, it only accepts the
// canonical spelling.
func (t *DType) UnmarshalText(text []byte) error {
	v, err := ParseDType(string(text))
	if err != nil {
		return err
	}
	if v.String() != string(text) {
		return fmt.Errorf("unknown dtype %q: want %q", text, v)
	}
	*t = v
	return nil
}

// dimJSON is the JSON form of a Dim with a symbol.
type dimJSON struct {
	Sym   string `json:"sym"`
	Bound int64  `json:"bound"`
	Mul   int64  `json:"mul"`
	Add   int64  `json:"add"`
}

// MarshalJSON writes a number, or for a symbolic dim an object with all fields, because only that includes the symbol's
// bound.
func (d Dim) MarshalJSON() ([]byte, error) {
	if d.IsStatic() {
		return json.Marshal(d.Add)
	}
	return json.Marshal(dimJSON(d))
}

// UnmarshalJSON parses the output of MarshalJSON. It is strict: a misspelt or repeated field is an error, and so is a
// dim that no shape may have.
func (d *Dim) UnmarshalJSON(text []byte) error {
	var v Dim
	if bytes.HasPrefix(text, []byte("{")) {
		var obj dimJSON
		if err := json.Unmarshal(text, &obj); err != nil {
			return fmt.Errorf("dim %.80s: %w", text, err)
		}
		if err := checkSym(obj.Sym); err != nil || obj.Mul < 1 {
			return fmt.Errorf("dim %.80s: want a symbol's name and a positive mul", text)
		}
		v = Dim(obj)
	} else if err := json.Unmarshal(text, &v.Add); err != nil {
		return fmt.Errorf("dim %.80s: want a number or an object", text)
	}
	if _, err := checkDim(v); err != nil {
		return err
	}
	// Any other spelling is an error, and so are unknown or repeated fields.
	if err := sameJSON(v, text); err != nil {
		return err
	}
	*d = v
	return nil
}

// sameJSON returns an error unless text is the canonical JSON of d, apart from white space.
func sameJSON(d Dim, text []byte) error {
	want, err := d.MarshalJSON()
	if err != nil {
		return err
	}
	var have bytes.Buffer
	if err := json.Compact(&have, text); err != nil {
		return err
	}
	if !bytes.Equal(have.Bytes(), want) {
		return fmt.Errorf("dim %.80s: want the form %s", text, want)
	}
	return nil
}
