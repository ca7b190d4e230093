package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		`{"a": 1, "b": [1, {"a": {}}], "c": "é😀\ud83d\ude00\u00e9\\u\"", "A": null}`: "",
		`[]`: "", ` "x" `: "", `-1.5e3`: "", `true`: "", `{}`: "", `[[], [{}], ""]`: "", `{"": {"": 1}}`: "",
		`{"\\": "\\", "\\\\": "\\ud800"}`: "",

		`{"a": 1, "a": 1}`:                             `it has the key "a" twice`,
		`{"a": 1, "b": 2, "\u0061": 3}`:                `it has the key "a" twice`,
		`{"x": [0, {"y": {"k": 1, "z": 2, "k": {}}}]}`: `x[1].y has the key "k" twice`,
		`[{"a": {"b": 1, "b": 2}, "c": "\ud800"}]`:     `[0].a has the key "b" twice`,
		`{"": 1, "": 2}`:                               `it has the key "" twice`,
		"{\"a\": [\"\xff\"]}":                          "a[0] has bytes that are not UTF-8",
		"\"\xed\xa0\x80\"":                             "it has bytes that are not UTF-8",
		"{\"a\": {\"\xc3\": 1}}":                       "a has bytes that are not UTF-8",
		`{"a": "\ud83d"}`:                              `a has \ud83d, half of a character`,
		`{"a": ["x", "\ude00\ud83d"]}`:                 `a[1] has \ude00, half`,
		`{"a": "\ud83d\n"}`:                            `a has \ud83d, half`,
		`{"a": "\ud83dx\ude00"}`:                       `a has \ud83d, half`,
		`{"a": "\ud83d\ud83d\ude00"}`:                  `a has \ud83d, half`,
		`{"a": "\\\ud83d"}`:                            `a has \ud83d, half`,
		`{"a": {"\uDC00": 1}}`:                         `a has \udc00, half`,
		``:                                             "unexpected end",
		`{"a": 1`:                                      "unexpected end",
		`{"a": 1} {}`:                                  "invalid character",
		`{"a" 1}`:                                      "invalid character",
	} {
		err := Check([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"a": [1, "\ud83d\ude00", {"b": null, "b": true}], "\u0061": -1e5}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := Check(data); (err == nil) && !json.Valid(data) {
			t.Errorf("%q is not JSON", data)
		}
	})
}

// TestDecode: nothing in the text is passed over.
func TestDecode(t *testing.T) {
	type pair struct {
		A int `json:"a"`
		B struct {
			C string `json:"c"`
		} `json:"b"`
	}
	for text, want := range map[string]string{
		`{"a": 1, "b": {"c": "x"}} `: "", `{}`: "",
		`{"a": 1, "d": 2}`:           "unknown field",
		`{"b": {"d": 2}}`:            "unknown field",
		`{"a": 1} 2`:                 "goes on",
		`{"a": 1}}`:                  "goes on",
		"{\"b\": {\"c\": \"\xff\"}}": "UTF-8",
		`{"a": "x"}`:                 "cannot unmarshal",
		``:                           "EOF",
	} {
		err := Decode([]byte(text), &pair{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
