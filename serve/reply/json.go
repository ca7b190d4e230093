package reply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// state says whether a text begins with a call.
type state int

const (
	not     state = iota // it does not
	partial              // more text may make it one
	whole                // it does
)

// maxDepth bounds the nesting of arguments.
const maxDepth = 64

// jsonSpan finds the end of a JSON object or array that arrives in pieces. It checks brackets and strings only.
type jsonSpan struct {
	open            []byte // the closing brackets that are due
	quoted, escaped bool
}

// take reads the next piece of a text that begins with a JSON object or list. It returns the number of bytes that
// belong to the value, and whether the value is whole, partial, or not JSON.
func (j *jsonSpan) take(piece string) (n int, st state) {
	for i := range len(piece) {
		c := piece[i]
		switch {
		case j.escaped: // this character follows a backslash in a string
			j.escaped = false
		case j.quoted:
			j.escaped, j.quoted = c == '\\', c != '"'
		case c == '"':
			j.quoted = true
		case c == '{':
			j.open = append(j.open, '}')
		case c == '[':
			j.open = append(j.open, ']')
		case c == '}' || c == ']':
			last := len(j.open) - 1
			if last < 0 || j.open[last] != c {
				return i, not
			}
			j.open = j.open[:last]
			if last == 0 {
				return i + 1, whole
			}
		}
		// It is not an object or list, or it is nested too deep.
		if len(j.open) == 0 || len(j.open) > maxDepth {
			return i, not
		}
	}
	return len(piece), partial
}

// span returns the length of the JSON object or array that s begins with.
func span(s string) (n int, st state) {
	if s == "" {
		return 0, partial
	}
	return new(jsonSpan).take(s)
}

// repair returns JSON with the control characters in its strings escaped. Models write them without escapes, which JSON
// forbids.
func repair(s string) []byte {
	var out bytes.Buffer
	quoted, escaped := false, false
	for i := range len(s) {
		c := s[i]
		if quoted && c < ' ' {
			fmt.Fprintf(&out, `\u%04x`, c)
			escaped = false
			continue
		}
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		}
		out.WriteByte(c)
	}
	return out.Bytes()
}

// object returns a JSON object in its compact form, and false if there is none. An empty text and null mean an empty
// object. A string means the object in it.
func object(text string) (compact string, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		return "{}", true
	}
	data := repair(text)
	var inner string
	if json.Unmarshal(data, &inner) == nil {
		inner = strings.TrimSpace(inner)
		if strings.HasPrefix(inner, `"`) { // a string in a string is no object
			return "", false
		}
		return object(inner) // some models write the object as a string
	}
	var out bytes.Buffer
	if text[0] != '{' || json.Compact(&out, data) != nil {
		return "", false
	}
	return out.String(), true
}

// callKeys are the keys with which the object of a call may begin. An object with another first key is content at once.
var callKeys = []string{"name", "arguments", "parameters", "type", "function", "id", "tool_name", "index"}

// plausible returns partial if s may begin a call: an object, or an array of objects, with one of callKeys as its first
// key. It also returns partial if s is too short to tell. Otherwise it returns the state not.
func plausible(s string) state {
	rest := strings.TrimLeft(s, " \t\r\n")
	if strings.HasPrefix(rest, "[") {
		rest = strings.TrimLeft(rest[1:], " \t\r\n")
	}
	if rest == "" {
		return partial
	}
	if rest[0] != '{' {
		return not
	}
	rest = strings.TrimLeft(rest[1:], " \t\r\n")
	for _, key := range callKeys {
		quoted := `"` + key + `"`
		if strings.HasPrefix(rest, quoted) || strings.HasPrefix(quoted, rest) {
			return partial
		}
	}
	return not
}

// Tool is a tool that an answer may call.
type Tool struct {
	Name       string
	Parameters json.RawMessage // its JSON Schema
	Strict     bool            // refuse a schema with parts that no grammar holds
}

// Tools are the tools that an answer may call.
type Tools []Tool

func (t Tools) has(name string) bool {
	return slices.ContainsFunc(t, func(one Tool) bool { return one.Name == name })
}

// begins reports whether the name of a tool begins with s.
func (t Tools) begins(s string) bool {
	return slices.ContainsFunc(t, func(one Tool) bool { return strings.HasPrefix(one.Name, s) })
}

// property returns the schema of a parameter of a tool.
func (t Tools) property(tool, name string) (p struct{ Type any }) {
	i := slices.IndexFunc(t, func(one Tool) bool { return one.Name == tool })
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if i >= 0 && json.Unmarshal(t[i].Parameters, &schema) == nil && schema.Properties[name] != nil {
		json.Unmarshal(schema.Properties[name], &p) // another form of schema has no type
	}
	return p
}

// value returns the JSON of a parameter that a model wrote without quotes. If the tool's schema says that the parameter
// is a string, it is the text as a JSON string. Otherwise it is the text itself if that is valid JSON, and else a
// string too.
func (t Tools) value(tool, name, text string) json.RawMessage {
	data := repair(strings.TrimSpace(text))
	if kind, isString := t.property(tool, name).Type.(string); kind != "string" || !isString {
		if json.Valid(data) {
			return data
		}
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`)
	}
	return quoted
}

// callOf returns the parts of a call from a JSON object with the name and the arguments of a tool, under the names that
// models use. It returns nil if data is no call of a tool.
func (t Tools) callOf(data []byte) []Part {
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil {
		return nil
	}
	var inner map[string]json.RawMessage
	if json.Unmarshal(fields["function"], &inner) == nil && inner["name"] != nil {
		fields = inner // OpenAI's form has both inside "function"
	}
	var name string
	for _, key := range []string{"name", "function", "tool_name"} {
		if json.Unmarshal(fields[key], &name) == nil {
			break
		}
	}
	given := ""
	for _, key := range []string{"arguments", "parameters", "input"} {
		if fields[key] != nil {
			given = string(fields[key])
			break
		}
	}
	arguments, ok := object(given)
	if !ok || !t.has(name) {
		return nil
	}
	return []Part{{CallStart, name}, {Arguments, arguments}}
}
