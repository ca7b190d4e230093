package onnx_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/frontend/onnx/onnxtest"
)

// TestEveryRowHasACase: a test runs each op of the tables: a model of ONNX's own tests or of testdata/cases, a line of
// samples.txt or contrib.txt, or a node in a test of this package.
func TestEveryRowHasACase(t *testing.T) {
	if _, err := os.Stat(suite); err != nil {
		t.Skipf("%v: install the package libonnx-testdata", err)
	}
	var models, tests strings.Builder
	collect := func(folder, suffix string, into *strings.Builder) {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) {
				return err
			}
			content, err := os.ReadFile(path)
			into.Write(content)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	collect(suite, "model.onnx", &models)
	collect("testdata/cases", "model.onnx", &models)
	collect(".", "_test.go", &tests)
	samples := readSamples(t)
	contrib, err := onnxtest.Read("testdata/contrib.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contrib {
		tests.WriteString(`"` + c.Op + `"`)
	}
	count := 0
	for domain, rows := range onnx.Rows() {
		for op := range rows {
			count++
			// A node has the name of its op in field 4, as a string with its length before it.
			field := "\x22" + string(rune(len(op))) + op
			if !strings.Contains(models.String(), field) && !strings.Contains(tests.String(), `"`+op+`"`) &&
				samples[op] == nil && samples[domain+"."+op] == nil {
				t.Errorf("%s %s: no test runs this op: add it to TestOpsByHand, or a case to small in cases_test.go",
					domain, op)
			}
		}
	}
	if count < 100 {
		t.Errorf("the tables have %d ops: the test proves little", count)
	}
}
