package bench

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"strings"
	"testing"
)

// TestChartOfREADME: the chart in docs is drawn from the stored results next to it.
func TestChartOfREADME(t *testing.T) {
	const name = "../docs/tokens-h100"
	r, err := ReadReport(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	base, err := OpenBaseline(name + "-peers.json")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := WriteBars(&want, r, base); err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile(name + ".svg"); err != nil || !bytes.Equal(have, want.Bytes()) {
		t.Errorf("docs/tokens-h100.svg is stale (%v). This command draws it:\nvkc bench --from docs/tokens-h100.json "+
			"--against docs/tokens-h100-peers.json --chart docs/tokens-h100.svg", err)
	}
	for _, c := range base.Compare(r) {
		if c.Ratio < 0.1 || c.Ratio > 10 {
			t.Errorf("%s has %g times the rate of %s", c.Result.Name, c.Ratio, c.Point.By)
		}
	}
	if n := len(base.Compare(r)); n != len(r.Results) {
		t.Errorf("%d of %d results have a figure to compare with", n, len(r.Results))
	}
}

// TestBars: bars are as long as the rates of their case, names are escaped, and cases without a rate are left out.
func TestBars(t *testing.T) {
	r := sample()
	r.Results = append(r.Results, Result{Name: "m", Status: OK, Micros: 1,
		Text: &Rate{Model: "a<b", Test: "tg128 @ d4096", Mean: 1500}})
	base := baseline(t, "", `{"case":"m","by":"x&y","per_second":3000},{"case":"add/f32/64","by":"z","per_second":7}`)
	var svg bytes.Buffer
	if err := WriteBars(&svg, r, base); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg.Bytes())); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("not XML: %v", err)
		}
	}
	for _, want := range []string{`width="490.0"`, `width="245.0"`, ">1,500<", ">3,000<", "x&amp;y", "prefers-color-scheme:dark",
		"a&lt;b: generating 128 tokens after 4096"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the chart lacks %s:\n%s", want, svg.String())
		}
	}
	if n := strings.Count(svg.String(), "<rect"); n != 2 {
		t.Errorf("the chart has %d bars, want 2", n)
	}
	if err := WriteBars(io.Discard, sample(), nil); err == nil || !strings.Contains(err.Error(), "-m") {
		t.Errorf("without a rate: %v", err)
	}
	if list := base.Compare(r); len(list) != 1 || list[0].Ratio != 0.5 {
		t.Errorf("comparisons: %v", list)
	}
}
