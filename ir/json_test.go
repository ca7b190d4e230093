package ir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// jsonFile wraps nodes, one a line from line 2 on, into a graph.json file.
func jsonFile(nodes ...string) string {
	return `{"format":"vkc.graph","version":1,"symbols":{"T":8},"nodes":[` + "\n" + strings.Join(nodes, ",\n") + "\n" +
		`],"outputs":[{"name":"y","node":"x"}]}`
}

// jsonInput is a valid node with id x.
const jsonInput = `{"id":"x","op":"input","attrs":{"name":"x","dtype":"f32","shape":["T",2]}}`

// jsonConst is a constant node with id c.
func jsonConst(data string) string {
	return `{"id":"c","op":"const","attrs":{"data":` + data + `}}`
}

func TestReadJSONErrors(t *testing.T) {
	withX := func(nodes ...string) string { return jsonFile(append([]string{jsonInput}, nodes...)...) }
	shape := func(s string) string {
		return jsonFile(`{"id":"x","op":"input","attrs":{"shape":` + s + `}}`)
	}
	head := `{"format":"vkc.graph","version":1,`
	for _, c := range []struct{ text, want string }{
		// Not JSON.
		{``, `g.json:1:1: found the end of the file, expected a JSON value`},
		{`{`, `g.json:1:2: found the end of the file, expected a key in quotes`},
		{`{"format"`, `g.json:1:10: format: found the end of the file, expected ":"`},
		{`{"format":x`, `g.json:1:11: format: found 'x', expected a JSON value`},
		{`{"format":"x`, `g.json:1:11: format: the string has no closing quote`},
		{`{"nodes":[1,]}`, `g.json:1:13: nodes[1]: found ']', expected a JSON value`},
		{`{"nodes":[1 2]}`, `g.json:1:13: nodes: found '2', expected "," or "]"`},
		{`{"nodes":[01]}`, `g.json:1:12: nodes: found '1', expected "," or "]"`},
		{`{"nodes":[- 1]}`, `g.json:1:12: nodes[0]: found ' ', expected a digit`},
		{`{"nodes":[1.]}`, `g.json:1:13: nodes[0]: found ']', expected a digit`},
		{`{"nodes":["\x"]}`, `g.json:1:12: nodes[0]: ` + errEscape.Error()},
		{`{"nodes":["\ud800"]}`, `g.json:1:12: nodes[0]: ` + errEscape.Error()},
		{"{\"nodes\":[\"\xff\"]}", `g.json:1:12: nodes[0]: the string is not UTF-8`},
		{"{\"nodes\":[\"\n\"]}", `g.json:1:12: nodes[0]: control character '\n' in a string: write it as an escape`},
		{`{"nodes":[],"nodes":[]}`, `g.json:1:13: nodes: key "nodes" is given twice`},
		{`{"é":[],"nodes":é}`, `g.json:1:17: nodes: found 'é', expected a JSON value`},
		{jsonFile(jsonInput) + ` {}`, `g.json:3:40: found '{', expected the end of the file`},
		{strings.Repeat("[", 100000), `g.json:1:41: ` + strings.Repeat("[0]", 40) + `: nested more than 40 deep`},
		{strings.Repeat(`{"a":`, 100000), `g.json:1:201: a` + strings.Repeat(".a", 39) + `: nested more than 40 deep`},

		// Not a graph.
		{`[]`, `g.json:1:1: found an array, expected an object`},
		{`{}`, `g.json:1:1: field "format" is missing`},
		{`{"format":"gguf","version":1,"nodes":[]}`, `g.json:1:11: format: this is not a vkc graph: want "vkc.graph"`},
		{`{"format":"vkc.graph","version":2,"nodes":[]}`, `g.json:1:33: version: unknown version: this vkc reads version 1`},
		{`{"format":"vkc.graph","version":"1","nodes":[]}`, `g.json:1:33: version: unknown version: this vkc reads version 1`},
		{head + `"nodes":[],"edges":[]}`, `g.json:1:46: edges: unknown field "edges": want format, version, nodes, name, symbols, updates, outputs`},
		{head + `"nodes":{}}`, `g.json:1:43: nodes: found an object, expected an array`},
		{head + `"nodes":[]}`, `g.json:1:1: the graph has no outputs and no updates, so it computes nothing`},
		{head + `"nodes":[],"name":7}`, `g.json:1:53: name: found a number, expected a string`},
		{head + `"nodes":[],"symbols":[]}`, `g.json:1:56: symbols: found an array, expected an object`},
		{head + `"nodes":[],"symbols":{"4":1}}`, `g.json:1:57: symbols["4"]: symbol "4": want letters, digits and underscores`},
		{head + `"nodes":[],"symbols":{"":1}}`, `g.json:1:57: symbols[""]: a symbol needs a name`},
		{head + `"nodes":[],"symbols":{"T":-1}}`, `g.json:1:57: symbols.T: dim T is out of range: the limit is 1099511627776`},
		{head + `"nodes":[],"symbols":{"T":1.5}}`, `g.json:1:61: symbols.T: 1.5 is not an integer: write it without fraction or exponent`},
		{head + `"nodes":[],"symbols":{"T":99999999999999999999}}`, `g.json:1:61: symbols.T: 99999999999999999999 is too large`},

		// Nodes.
		{withX(`7`), `g.json:3:1: nodes[1]: found a number, expected an object`},
		{withX(`{"id":"y"}`), `g.json:3:1: nodes[1]: field "op" is missing`},
		{withX(`{"id":7,"op":"relu"}`), `g.json:3:7: nodes[1].id: found a number, expected a string`},
		{withX(`{"id":"y","op":"relu","arg":["x"]}`), `g.json:3:23: nodes[1].arg: unknown field "arg": want id, op, args, attrs, type`},
		{withX(`{"id":"x","op":"relu","args":["x"]}`), `g.json:3:7: nodes[1].id: id "x" is already the id of nodes[0]: choose another`},
		{withX(`{"id":"y","op":"rellu","args":["x"]}`), `g.json:3:16: nodes[1].op: unknown op "rellu": did you mean "relu"? docs/OPS.md lists all ops`},
		{withX(`{"id":"y","op":"relu","args":["z"]}`), `g.json:3:31: nodes[1].args[0]: no node has the id "z"`},
		{withX(`{"id":"y","op":"relu","args":"x"}`), `g.json:3:30: nodes[1].args: found a string, expected an array`},
		{withX(`{"id":"y","op":"relu","args":[0]}`), `g.json:3:31: nodes[1].args[0]: found a number, expected a string`},
		{withX(`{"id":"y","op":"relu"}`), `g.json:3:1: nodes[1]: relu(): takes 1 argument, have 0`},
		{withX(`{"id":"y","op":"relu","args":["x"],"type":"f32[T,3]"}`), `g.json:3:43: nodes[1].type: the graph says type "f32[T,3]", but relu makes "f32[T,2]"`},
		{withX(`{"id":"y","op":"relu","args":["x"],"type":[]}`), `g.json:3:43: nodes[1].type: found an array, expected a string`},
		{withX(`{"id":"y","op":"not","args":["x"]}`), `g.json:3:1: nodes[1]: not(f32[T,2]): input "x" is f32 (float), want [int uint bool]`},
		{withX(`{"id":"y","op":"add","args":["x","z"]}`, `{"id":"z","op":"relu","args":["y"]}`),
			`g.json:3:1: nodes[1]: cycle of 2 nodes: "y" needs "z" needs "y": a node cannot depend on itself (use a state and an update to carry a value over to the next run)`},
		{withX(`{"id":"y","op":"add","args":["y","x"]}`),
			`g.json:3:1: nodes[1]: cycle of 1 nodes: "y" needs "y": a node cannot depend on itself (use a state and an update to carry a value over to the next run)`},
		{withX(strings.ReplaceAll(jsonInput, `"id":"x"`, `"id":"x2"`)), `g.json:3:1: nodes[1]: input(): another input, weight or state has the name "x": choose another name`},

		// Attributes.
		{withX(`{"id":"y","op":"relu","args":["x"],"attrs":[]}`), `g.json:3:44: nodes[1].attrs: found an array, expected an object`},
		{withX(`{"id":"y","op":"elu","args":["x"],"attrs":{"beta":1}}`), `g.json:3:44: nodes[1].attrs.beta: unknown attribute "beta": elu has alpha`},
		{withX(`{"id":"y","op":"powf","args":["x"]}`), `g.json:3:1: nodes[1]: powf(f32[T,2]): attribute "exponent" (float) is missing: the power`},
		{withX(`{"id":"y","op":"elu","args":["x"],"attrs":{"alpha":NaN}}`), `g.json:3:52: nodes[1].attrs.alpha: found 'N', expected a JSON value`},
		{withX(`{"id":"y","op":"elu","args":["x"],"attrs":{"alpha":"nan"}}`), `g.json:3:52: nodes[1].attrs.alpha: found the string "nan", expected a number, "inf" or "-inf"`},
		{withX(`{"id":"y","op":"elu","args":["x"],"attrs":{"alpha":1e999}}`), `g.json:3:52: nodes[1].attrs.alpha: 1e999 is too large for a float (write inf for infinity)`},
		{withX(`{"id":"y","op":"elu","args":["x"],"attrs":{"alpha":null}}`), `g.json:3:52: nodes[1].attrs.alpha: found null, expected a number`},
		{withX(`{"id":"y","op":"softmax","args":["x"],"attrs":{"axis":1.0}}`), `g.json:3:55: nodes[1].attrs.axis: 1.0 is not an integer: write it without fraction or exponent`},
		{withX(`{"id":"y","op":"softmax","args":["x"],"attrs":{"axis":1e0}}`), `g.json:3:55: nodes[1].attrs.axis: 1e0 is not an integer: write it without fraction or exponent`},
		{withX(`{"id":"y","op":"softmax","args":["x"],"attrs":{"axis":"1"}}`), `g.json:3:55: nodes[1].attrs.axis: found a string, expected a number`},
		{withX(`{"id":"y","op":"sum","args":["x"],"attrs":{"keepdims":1}}`), `g.json:3:55: nodes[1].attrs.keepdims: found a number, expected a boolean`},
		{withX(`{"id":"y","op":"sum","args":["x"],"attrs":{"axes":[0,0,0,0,0,0,0,0,0]}}`), `g.json:3:51: nodes[1].attrs.axes: 9 values are more than the 8 axes a tensor can have`},
		{withX(`{"id":"y","op":"cast","args":["x"],"attrs":{"dtype":"f31"}}`), `g.json:3:53: nodes[1].attrs.dtype: unknown dtype "f31": want one of ` + dtypeList()},
		{withX(`{"id":"y","op":"rope","args":["x","x"],"attrs":{"mode":"full"}}`), `g.json:3:56: nodes[1].attrs.mode: "full" is not one of interleaved, half`},
		{shape(`[-4]`), `g.json:2:42: nodes[0].attrs.shape[0]: dim -4 is negative`},
		{shape(`[1,"T-9"]`), `g.json:2:1: nodes[0]: input(): attribute "name" (string) is missing: name of the tensor`},
		{shape(`[1.5]`), `g.json:2:42: nodes[0].attrs.shape[0]: 1.5 is not an integer: write it without fraction or exponent`},
		{shape(`[9999999999999]`), `g.json:2:42: nodes[0].attrs.shape[0]: dim 9999999999999 is out of range: the limit is 1099511627776`},
		{shape(`[1048576,1048577]`), `g.json:2:41: nodes[0].attrs.shape: shape [1048576,1048577] can hold more than 1099511627776 elements`},
		{shape(`["U"]`), `g.json:2:42: nodes[0].attrs.shape[0]: dim "U": symbol U is not declared`},
		{shape(`["T*2"]`), `g.json:2:42: nodes[0].attrs.shape[0]: dim "T*2": want a number, a symbol, or sums and products of them: 4*T+1, S+T, B*(T+1), floor((T+1)/2)`},
		{shape(`[null]`), `g.json:2:42: nodes[0].attrs.shape[0]: found null, expected a dim: a number, or a string such as "T" or "4*T+1"`},
		{shape(`4`), `g.json:2:41: nodes[0].attrs.shape: found a number, expected an array`},
		{shape(`[1,1,1,1,1,1,1,1,1]`), `g.json:2:41: nodes[0].attrs.shape: rank 9 is over the limit of 8`},

		// Constants.
		{withX(jsonConst(`7`)), `g.json:3:40: nodes[1].attrs.data: found a number, expected an object`},
		{withX(jsonConst(`{"dtype":"f32"}`)), `g.json:3:40: nodes[1].attrs.data: field "shape" is missing`},
		{withX(jsonConst(`{"dtype":"f32","shape":[2]}`)), `g.json:3:40: nodes[1].attrs.data: want exactly one of values, all and base64`},
		{withX(jsonConst(`{"dtype":"f32","shape":[2],"all":1,"values":[]}`)), `g.json:3:40: nodes[1].attrs.data: want exactly one of values, all and base64`},
		{withX(jsonConst(`{"dtype":"f32","shape":["T"],"all":1}`)), `g.json:3:63: nodes[1].attrs.data.shape: a constant needs a static shape, have [T]`},
		{withX(jsonConst(`{"dtype":"f32","shape":[2],"values":[1]}`)), `g.json:3:76: nodes[1].attrs.data.values: f32[2] has 2 values of 4 bytes, have 4 bytes`},
		{withX(jsonConst(`{"dtype":"f32","shape":[2],"values":[1,2,3]}`)), `g.json:3:81: nodes[1].attrs.data.values[2]: there are more than the 2 values of f32[2]`},
		{withX(jsonConst(`{"dtype":"f32","shape":[2],"values":[[1],[2]]}`)), `g.json:3:77: nodes[1].attrs.data.values[0]: found an array, expected a value: the values of all axes are one flat array`},
		{withX(jsonConst(`{"dtype":"f32","shape":[1],"values":["1"]}`)), `g.json:3:77: nodes[1].attrs.data.values[0]: found the string "1", expected a number, "inf", "-inf" or "nan:HEX"`},
		{withX(jsonConst(`{"dtype":"f32","shape":[1],"values":[true]}`)), `g.json:3:77: nodes[1].attrs.data.values[0]: "true" is not a number`},
		{withX(jsonConst(`{"dtype":"f16","shape":[1],"values":[65520]}`)), `g.json:3:77: nodes[1].attrs.data.values[0]: 65520 is out of range for f16`},
		{withX(jsonConst(`{"dtype":"u32","shape":[1],"values":[4294967296]}`)), `g.json:3:77: nodes[1].attrs.data.values[0]: "4294967296" is not an u32: want an integer 0 to 4294967295`},
		{withX(jsonConst(`{"dtype":"i32","shape":[1],"values":["inf"]}`)), `g.json:3:77: nodes[1].attrs.data.values[0]: "inf" is not an i32: want an integer -2147483648 to 2147483647`},
		{withX(jsonConst(`{"dtype":"f32","shape":[1099511627776],"all":0}`)), `g.json:3:63: nodes[1].attrs.data.shape: 1099511627776 elements of f32 take more than 1099511627776 bytes`},
		{withX(jsonConst(`{"dtype":"f32","shape":[99999999],"all":0}`)), `g.json:3:80: nodes[1].attrs.data.all: repeated values take more than 67108864 bytes in this graph: broadcast a constant of one element instead`},
		{withX(jsonConst(`{"dtype":"f32","shape":[2],"base64":"AAAA"}`)), `g.json:3:76: nodes[1].attrs.data.base64: f32[2] has 2 values of 4 bytes, have 3 bytes`},
		{withX(jsonConst(`{"dtype":"f32","shape":[2],"base64":"?"}`)), `g.json:3:76: nodes[1].attrs.data.base64: not base64 (RFC 4648, padded): illegal base64 data at input byte 0`},

		// Updates and outputs.
		{head + `"nodes":[` + jsonInput + `],"updates":[{"state":"x","value":"x"}]}`, `g.json:1:110: nodes[0].attrs.shape[0]: dim "T": symbol T is not declared`},
		{strings.Replace(jsonFile(jsonInput), `"outputs"`, `"updates":[{"state":"x","value":"x"}],"outputs"`, 1), `g.json:3:14: updates[0]: update of %0, which is input: only states can be updated`},
		{strings.Replace(jsonFile(jsonInput), `"node":"x"`, `"node":"y"`, 1), `g.json:3:33: outputs[0].node: no node has the id "y"`},
		{strings.Replace(jsonFile(jsonInput), `"name":"y"`, `"name":""`, 1), `g.json:3:22: outputs[0].name: an output needs a name`},
		{strings.Replace(jsonFile(jsonInput), `}]}`, `},{"name":"y","node":"x"}]}`, 1), `g.json:3:46: outputs[1].name: output "y" is declared twice`},
	} {
		g, err := ReadJSON("g.json", []byte(c.text))
		text := c.text[:min(len(c.text), 400)]
		if err == nil {
			t.Errorf("%s\n reads as %s\n want error %s", text, g, c.want)
		} else if err.Error() != c.want {
			t.Errorf("%s\n have %s\n want %s", text, err, c.want)
		}
	}
}

// TestReadJSONLongCycle: a cycle is listed up to a length, and a long chain is
// no trouble.
func TestReadJSONLongCycle(t *testing.T) {
	var nodes []string
	node := func(id, arg string) { nodes = append(nodes, `{"id":"`+id+`","op":"relu","args":["`+arg+`"]}`) }
	for _, id := range "abcdefghijk" {
		node(string(id), string(id+1))
	}
	node("l", "a")
	_, err := ReadJSON("g", []byte(jsonFile(append(nodes, jsonInput)...)))
	const want = `g:2:1: nodes[0]: cycle of 12 nodes: "a" needs "b" needs "c" needs "d" needs "e" needs "f" needs "g" needs "h" needs … needs "a": `
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("have %v\nwant %s…", err, want)
	}
}

// TestReadJSONOrder: nodes in any order give the same computation. A file in topological order keeps its order.
func TestReadJSONOrder(t *testing.T) {
	sorted := []string{jsonInput,
		`{"id":"w","op":"input","attrs":{"name":"w","dtype":"f32","shape":[2]}}`,
		`{"id":"a","op":"exp","args":["x"]}`,
		`{"id":"b","op":"add","args":["a","w"]}`}
	shuffled := []string{sorted[3], sorted[2], sorted[0], sorted[1]}
	a, err := ReadJSON("a", []byte(jsonFile(sorted...)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := ReadJSON("b", []byte(jsonFile(shuffled...)))
	if err != nil {
		t.Fatal(err)
	}
	if a.Hash() != b.Hash() {
		t.Errorf("hashes differ:\n%s%s", a, b)
	}
	for i, want := range []Op{OpInput, OpInput, OpExp, OpAdd} {
		if got := a.nodes[i].op; got != want {
			t.Errorf("node %d of the sorted file is %s, want %s", i, got, want)
		}
	}
}

// TestReadJSONStrings: every escape of JSON is read, as encoding/json does.
func TestReadJSONStrings(t *testing.T) {
	for _, quoted := range []string{`"\"\\\/\b\f\n\r\t"`, `"é\u00e9\ud83d\ude00😀"`, `"<&>"`, `""`} {
		var want string
		if err := json.Unmarshal([]byte(quoted), &want); err != nil {
			t.Fatal(err)
		}
		g, err := ReadJSON("g", []byte(strings.Replace(jsonFile(jsonInput), `"version"`,
			`"name":`+quoted+`,"version"`, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if g.Name != want {
			t.Errorf("%s: have %q, want %q", quoted, g.Name, want)
		}
		throughJSON(t, g)
	}
}

func TestWriteJSONNeedsUTF8(t *testing.T) {
	if text, err := NewGraph("\xff").MarshalJSONText(); err == nil {
		t.Errorf("wrote %s", text)
	}
}

// FuzzReadJSON checks that every accepted input is a valid graph, and that writing and reading it gives the same graph.
func FuzzReadJSON(f *testing.F) {
	files, err := filepath.Glob(goldenDir + "/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"format":"vkc.graph","version":1,"symbols":{"B":4,"T":8},"nodes":[{"id":"x","op":"input","attrs":` +
		`{"name":"x","dtype":"f32","shape":["(2*T+1)*(B+1)","3*B*T-4"]}}],"outputs":[{"name":"y","node":"x"}]}`))
	f.Add([]byte(jsonFile(jsonConst(`{"dtype":"f8e4m3","shape":[1],"values":["nan:ff"]}`), jsonInput)))
	f.Add([]byte(strings.Replace(jsonFile(jsonInput), `"node":"x"`, `"node":"x","found":{"axis":0,"count":"n"}`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		g, err := ReadJSON("f", data)
		if err != nil {
			list := []error{err}
			if all := (ReadErrors)(nil); errors.As(err, &all) {
				list = all.Unwrap()
			}
			for _, one := range list {
				if strings.Contains(one.Error(), "\n") {
					t.Fatalf("error of several lines: %q", one)
				}
			}
			return
		}
		if err := g.Verify(); err != nil {
			t.Fatal(err)
		}
		throughJSON(t, g)
		again, err := Parse(g.String())
		if err != nil {
			t.Fatal(err)
		}
		sameGraph(t, g, again)
	})
}

// TestJSONAllErrors: all mistakes in a file are reported at once, in order, without errors that are consequences of
// others.
func TestJSONAllErrors(t *testing.T) {
	text := `{"format": "vkc.graph", "version": 1, "symbols": {"T": -1, "N": "x"}, "nodes": [
{"id": "x", "op": "input", "attrs": {"name": "x", "dtype": "f23", "shape": ["T", -8, "N"]}},
{"id": "a", "op": "neg", "args": ["x", "nowhere"]},
{"id": "b", "op": "frobnicate", "args": ["a"]},
{"id": "c", "op": "add", "args": ["b", "b"], "extra": 1, "more": 2},
{"id": "w", "op": "weight", "attrs": {"name": "w", "dtype": "f32", "shape": [2, 3]}},
{"id": "v", "op": "weight", "attrs": {"name": "v", "dtype": "f32", "shape": [3, 2]}},
{"id": "d", "op": "add", "args": ["w", "v"]},
{"id": "e", "op": "softmax", "args": ["d"]},
{"id": "w", "op": "relu", "args": ["w"]},
{"id": "f", "op": "relu", "args": ["g"]}, {"id": "g", "op": "relu", "args": ["f"]},
{"op": "relu"}],
"updates": [{"state": "w", "value": "v"}, {"state": "a", "value": "missing"}],
"outputs": [{"name": "y", "node": "e"}, {"name": "", "node": "w"}, {"name": "z", "node": "zz"}]}`
	_, err := ReadJSON("g.json", []byte(text))
	var all ReadErrors
	if !errors.As(err, &all) {
		t.Fatalf("%v", err)
	}
	want := []string{
		"g.json:1:51: symbols.T: ", "g.json:1:65: symbols.N: found a string",
		`g.json:2:60: nodes[0].attrs.dtype: `, `g.json:2:82: nodes[0].attrs.shape[1]: dim -8 is negative`,
		`g.json:3:40: nodes[1].args[1]: no node has the id "nowhere"`,
		`g.json:4:19: nodes[2].op: unknown op "frobnicate"`,
		`g.json:5:46: nodes[3].extra: unknown field "extra"`, `g.json:5:58: nodes[3].more: unknown field "more"`,
		`g.json:8:1: nodes[6]: add(f32[2,3], f32[3,2]): `,
		`g.json:10:8: nodes[8].id: id "w" is already the id of nodes[4]: choose another`,
		`g.json:11:1: nodes[9]: cycle of 2 nodes: "f" needs "g" needs "f"`,
		`g.json:12:1: nodes[11]: field "id" is missing`,
		`g.json:13:13: updates[0]: `, `g.json:13:67: updates[1].value: no node has the id "missing"`,
		`g.json:14:50: outputs[1].name: `, `g.json:14:90: outputs[2].node: no node has the id "zz"`,
	}
	for i := range max(len(all), len(want)) {
		var have, wanted string
		if i < len(all) {
			have = all[i].Error()
		}
		if i < len(want) {
			wanted = want[i]
		}
		if wanted == "" || !strings.HasPrefix(have, wanted) {
			t.Errorf("have %s\nwant %s", have, wanted)
		}
	}
	if one := (*ReadError)(nil); !errors.As(err, &one) || one != all[0] {
		t.Error("the first error cannot be told by errors.As")
	}

	var many strings.Builder
	many.WriteString(`{"format": "vkc.graph", "version": 1, "nodes": [`)
	for i := range 1000 {
		fmt.Fprintf(&many, "{\"id\": \"%d\", \"op\": \"nonsense\"},\n", i)
	}
	many.WriteString(`{"id": "x", "op": "input"}], "outputs": [{"name": "y", "node": "0"}]}`)
	_, err = ReadJSON("g.json", []byte(many.String()))
	if !errors.As(err, &all) || len(all) != maxReadErrors || all[0].Line != 1 ||
		all[len(all)-1].Line != maxReadErrors ||
		!strings.HasSuffix(err.Error(), "(and 981 more mistakes after this one)") {
		t.Errorf("%v", err)
	}
}
