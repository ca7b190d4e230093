package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestTablesAreCurrent(t *testing.T) {
	in, err := os.ReadFile("../../../golden/quant/ggml-iq-grids.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../tables_iq.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("quant/tables_iq.go differs from what its JSON generates: run go generate ./quant")
	}
}

func TestGenerateRefuses(t *testing.T) {
	in, err := os.ReadFile("../../../golden/quant/ggml-iq-grids.json")
	if err != nil {
		t.Fatal(err)
	}
	good := string(in)
	for _, tc := range []struct{ name, in, want string }{
		{"not JSON", "{", "read grids"},
		{"missing grid", "{}", "gridIQ2XXS has 0 entries, want 256"},
		{"short entry", strings.Replace(good, `"0808080808080808"`, `"08"`, 1), "want 16 hex digits"},
		{"not hex", strings.Replace(good, `"0808080808080808"`, `"zz08080808080808"`, 1), "invalid syntax"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := generate([]byte(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one containing %q", err, tc.want)
			}
		})
	}
}
