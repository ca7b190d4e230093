package ir

import (
	"os"
	"strings"
	"sync"
	"testing"
)

// opsDoc is OpsMarkdown. Tests share the page, because most of their time goes into it.
var opsDoc = sync.OnceValue(OpsMarkdown)

// TestOpsDocIsFresh fails if docs/OPS.md differs from the op table.
func TestOpsDocIsFresh(t *testing.T) {
	const file = "../docs/OPS.md"
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, _ := strings.Cut(string(have), "\n## Where ops run\n") // package gendocs writes the rest
	if line, h, w := firstDiff(rows, opsDoc()); line > 0 {
		t.Errorf("%s:%d is stale: run go generate ./ir\n have %s\n want %s", file, line, h, w)
	}
}

// TestOpsDocHasEveryOp: each op and attribute has its row, with dtypes for
// each argument.
func TestOpsDocHasEveryOp(t *testing.T) {
	doc := opsDoc()
	for _, op := range Ops() {
		if n := strings.Count(doc, "\n| `"+op.String()+"` | "); n != 1+len(op.Info().Attrs) {
			t.Errorf("%s has %d rows for itself and %d attributes", op, n, len(op.Info().Attrs))
		}
		for i, a := range op.Info().Args {
			if len(acceptedDTypes(op.Info(), i)) == 0 {
				t.Errorf("%s: no dtype is found for argument %s: give the op an entry in probeShapes", op, a.Name)
			}
		}
	}
}

// TestOpsDocCells: the first sentence about an op or an attribute fits the cell of a table.
func TestOpsDocCells(t *testing.T) {
	for line := range strings.Lines(opsDoc()) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		for text := range strings.SplitSeq(line, "|") {
			if n := len(strings.Fields(text)); n > cellWords {
				t.Errorf("a cell of %d words, it may have %d: shorten the first sentence of the row's Doc:%s", n,
					cellWords, text)
			}
		}
	}
}

// TestOpsDocSaysOutOfRange: the documentation of each op with indices defines the result for an index out of range.
func TestOpsDocSaysOutOfRange(t *testing.T) {
	for _, op := range Ops() {
		in := op.Info()
		for _, a := range in.Args {
			if a.Name != "indices" && a.Name != "ids" && a.Name != "start" {
				continue
			}
			about := in.Doc
			for _, attr := range in.Attrs {
				about += " " + attr.Doc
			}
			if !strings.Contains(about, "clamped") && !strings.Contains(about, "out of range") {
				t.Errorf("%s says nothing of %s out of range: %s", op, a.Name, in.Doc)
			}
		}
	}
}

// docBlock returns the first block of a language in a Markdown file.
func docBlock(t *testing.T, file, lang string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(raw), "```"+lang+"\n")
	block, _, closed := strings.Cut(rest, "```\n")
	if !ok || !closed {
		t.Fatalf("%s has no block of %s", file, lang)
	}
	return block
}

// TestGraphJSONDoc reads the example of docs/GRAPH-JSON.md, which is in
// canonical form.
func TestGraphJSONDoc(t *testing.T) {
	const file = "../docs/GRAPH-JSON.md"
	example := docBlock(t, file, "json")
	g, err := ReadJSON(file, []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	text, err := g.MarshalJSONText()
	if err != nil {
		t.Fatal(err)
	}
	if line, have, want := firstDiff(example, string(text)); line > 0 {
		t.Errorf("line %d of the example\n have %s\n want %s", line, have, want)
	}
}
