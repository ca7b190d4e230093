package ir

import (
	"os"
	"testing"
)

func TestParseLoose(t *testing.T) {
	// Ids, spacing, comments, order of statements and types are the writer's.
	const loose = `; a comment before
graph "g"{symbol T<=4 ;; bound
%in.0=input{shape=[T,2],dtype=F32,name="x"}:f32[T,2]
output "first" %in.0
%_y = add %in.0,%in.0
%z = leaky_relu %_y {alpha=1} ; an integer will do
output "z" %z}`
	const printed = `graph "g" {
  symbol T <= 4
  %0 = input {name="x", dtype=f32, shape=[T,2]} : f32[T,2]
  %1 = add %0, %0 : f32[T,2]
  %2 = leaky_relu %1 {alpha=1.0} : f32[T,2]
  output "first" %0
  output "z" %2
}
`
	g, err := Parse(loose)
	if err != nil {
		t.Fatal(err)
	}
	if got := g.String(); got != printed {
		t.Errorf("printed\n%s\nwant\n%s", got, printed)
	}
}

func TestParseErrors(t *testing.T) {
	const x = "%x = input {name=\"x\", dtype=f32, shape=[2]}\n"
	body := func(s string) string { return "graph \"\" {\n" + s + "}" }
	data := func(s string) string { return body("%c = const {data=" + s + "}") }
	for _, c := range []struct{ text, want string }{
		{"", `1:1: found the end of the text, expected "graph"`},
		{"graf", `1:1: found "graf", expected "graph"`},
		{"graph x", `1:7: found "x", expected the graph's name in quotes`},
		{"graph \"x", `1:7: found "\"x", expected the graph's name in quotes`},
		{"graph \"\\xff\" {}", `1:7: "\xff" is not UTF-8`},
		{"graph \"\" {", `1:11: found the end of the text, expected a node (%id = …), "symbol", "update", "output" or "}"`},
		{"graph \"\" {} é", `1:13: found "é", expected the end of the text`},
		{body("node"), `2:1: found "node", expected a node (%id = …), "symbol", "update", "output" or "}"`},
		{body("%"), `2:1: found "%", expected a node (%id = …), "symbol", "update", "output" or "}"`},
		{body("symbol 4 <= 5"), `2:1: symbol "4": want letters, digits and underscores`},
		{body("symbol T = 5"), `2:10: found "=", expected "<="`},
		{body("symbol T <= 1.5"), `2:13: found "1.5", expected an integer`},
		{body("symbol T <= 99999999999999999999"), `2:13: 99999999999999999999 is too large`},
		{body("symbol T <= -5"), `2:1: dim T is out of range: the limit is 1099511627776`},
		{body("symbol T <= 5 symbol T <= 6"), `2:15: symbol T has bound 6 here and 5 elsewhere`},
		{body("%x relu"), `2:4: found "relu", expected "="`},
		{body("%x = rellu"), `2:6: unknown op "rellu": did you mean "relu"? docs/OPS.md lists all ops`},
		{body("%x = relu %y"), `2:11: no node %y is declared above`},
		{body(x + x), `3:1: node %x is declared twice`},
		{body(x + "%y = relu %x,"), `3:14: found "}", expected a node (%id)`},
		{body(x + "%y = relu %x, %x"), `3:6: relu(f32[2], f32[2]): takes 1 argument, have 2`},
		{body(x + "%y = input {name=\"x\", dtype=f32, shape=[]}"), `3:6: input(): another input, weight or state has the name "x": choose another name`},
		{body("%x = input {name=x}"), `2:18: found "x", expected a string in quotes`},
		{body("%x = input {name=\"x\", dtype=f31}"), `2:29: unknown dtype "f31": want one of ` + dtypeList()},
		{body("%x = input {shape=[U]}"), `2:20: dim "U": symbol U is not declared`},
		{body("%x = input {shape=[-4]}"), `2:20: dim -4 is negative`},
		{body("%x = input {shape=[2*]}"), `2:20: dim "2*": want a number, a symbol, or sums and products of them: 4*T+1, S+T, B*(T+1), floor((T+1)/2)`},
		{body("%x = input {shape=[2 3]}"), `2:22: found "3", expected "," or "]"`},
		{body("%x = input {shape=2}"), `2:19: found "2", expected "["`},
		{body("%x = input {colour=2}"), `2:13: unknown attribute "colour": input has name, dtype, shape`},
		{body("%x = input {name=\"a\", name=\"b\", dtype=f32, shape=[]}"), `2:6: input(): attribute "name" is given twice`},
		{body(x + "%y = sum %x {keepdims=1}"), `3:23: found "1", expected true or false`},
		{body(x + "%y = elu %x {alpha=nan}"), `3:20: "nan" is not a number`},
		{body(x + "%y = elu %x {alpha=0x1p4}"), `3:20: "0x1p4" is not a number`},
		{body(x + "%y = elu %x {alpha=1e999}"), `3:20: 1e999 is too large for a float (write inf for infinity)`},
		{body(x + "%y = relu %x : f32[3]"), `3:16: the graph says type f32[3], but relu makes f32[2]`},
		{body(x + "%y = relu %x : "), `3:16: found "}", expected a dtype`},
		{body(x + "output y %x"), `3:8: found "y", expected the output's name in quotes`},
		{body(x + "output \"y\" x"), `3:12: found "x", expected a node (%id)`},
		{body(x + "output \"y\" %x output \"y\" %x"), `3:15: output "y" is declared twice`},
		{body(x + "update %x = %x"), `3:1: update of %0, which is input: only states can be updated`},
		{data("f32[2](1)"), `2:18: f32[2] has 2 values of 4 bytes, have 4 bytes`},
		{data("f32[2](1, 2, 3)"), `2:31: there are more than the 2 values of f32[2]`},
		{data("f32[1](1e39)"), `2:25: 1e39 is out of range for f32`},
		{data("f8e4m3[1](449)"), `2:28: 449 is out of range for f8e4m3`},
		{data("i8[1](128)"), `2:24: "128" is not an i8: want an integer -128 to 127`},
		{data("u8[1](-1)"), `2:24: "-1" is not an u8: want an integer 0 to 255`},
		{data("i32[1](1.0)"), `2:25: "1.0" is not an i32: want an integer -2147483648 to 2147483647`},
		{data("bool[1](1)"), `2:26: "1" is not a bool: want true or false`},
		{data("f32[1](nan)"), `2:25: "nan" is not a number`},
		{data("f32[1](nan:7fc0)"), `2:25: nan:7fc0: want the 4 bytes of the f32 as hex digits`},
		{data("f32[1](nan:0000803f)"), `2:25: nan:0000803f is 1.0, not a NaN`},
		{data("q4_0[32](1)"), `2:27: q4_0 has no single values: give its blocks as base64`},
		{data("q4_0[31](1)"), `2:18: innermost dim of [31] is not a whole number of q4_0 blocks of 32`},
		{data("q4_0[32](base64 \"AAAA\")"), `2:34: q4_0[32] has 1 values of 18 bytes, have 3 bytes`},
		{data("u8[1](base64 \"A\")"), `2:31: not base64 (RFC 4648, padded): illegal base64 data at input byte 0`},
		{data("bool[1](base64 \"Ag==\")"), `2:33: element 0 of bool[1] is byte 2: want 0 or 1 for a bool`},
		{data("f32[16777217](all 0)"), `2:36: repeated values take more than 67108864 bytes in this graph: broadcast a constant of one element instead`},
	} {
		g, err := Parse(c.text)
		if err == nil {
			t.Errorf("%s\n reads as %s\n want error %s", c.text, g, c.want)
		} else if err.Error() != c.want {
			t.Errorf("%s\n have %s\n want %s", c.text, err, c.want)
		}
	}
}

// TestSplatBudget: repeated values are limited over the whole graph, and their JSON stays within the limit.
func TestSplatBudget(t *testing.T) {
	const half = "const {data=u8[40000000](all 7)}\n"
	if _, err := Parse("graph \"\" {\n%a = " + half + "%b = " + half + "}"); err == nil {
		t.Error("two constants of 40 MB from a few bytes of text were accepted")
	}
	g := NewGraph("")
	for range 2 {
		data, err := NewData(U8, 40_000_000)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Add(OpConst, nil, []Attr{{"data", data}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Output("x", g.nodes[0]); err != nil {
		t.Fatal(err)
	}
	text, err := g.MarshalJSONText()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadJSON("", text)
	if err != nil {
		t.Fatal(err)
	}
	if back.Hash() != g.Hash() {
		t.Error("hash changed")
	}
}

// FuzzParse checks that printing a parsed graph and parsing it again gives the same text and hash, and that JSON
// preserves the graph.
func FuzzParse(f *testing.F) {
	for _, file := range goldenGraphs(f) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(rulesGraph(f))
	f.Add("graph \"\" {%x = const {data=bool[](true)} : bool[] output \"\\n\" %x}")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Parse(text)
		if err != nil {
			return
		}
		if err := verifyNodes(g); err != nil {
			t.Fatal(err)
		}
		printed := g.String()
		again, err := Parse(printed)
		if err != nil {
			t.Fatalf("%v in\n%s", err, printed)
		}
		sameGraph(t, g, again)
		if g.Verify() == nil {
			throughJSON(t, g)
		}
	})
}

// verifyNodes is Verify without the demand for outputs.
func verifyNodes(g *Graph) error {
	for i, n := range g.nodes {
		if err := g.verifyNode(i, n); err != nil {
			return err
		}
	}
	return nil
}

func sameGraph(t *testing.T, a, b *Graph) {
	t.Helper()
	if line, x, y := firstDiff(a.String(), b.String()); line > 0 {
		t.Fatalf("line %d\n first  %s\n second %s", line, x, y)
	}
	if a.Hash() != b.Hash() {
		t.Fatalf("hash changed for\n%s", a)
	}
}

// throughJSON checks that writing and reading changes neither graph nor file.
func throughJSON(t *testing.T, g *Graph) {
	t.Helper()
	text, err := g.MarshalJSONText()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadJSON("g.json", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	sameGraph(t, g, again)
	text2, err := again.MarshalJSONText()
	if err != nil || string(text2) != string(text) {
		t.Fatalf("written twice (%v):\n%s\n%s", err, text, text2)
	}
}
