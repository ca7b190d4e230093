package bench

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChartsOfDocs: the charts in docs are drawn from the stored results next to them.
func TestChartsOfDocs(t *testing.T) {
	files, err := filepath.Glob("../docs/*-peers.json")
	if err != nil || len(files) < 6 {
		t.Fatalf("%d files of results: %v", len(files), err)
	}
	for _, peers := range files {
		name := strings.TrimSuffix(peers, "-peers.json")
		r, err := ReadReport(name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		base, err := OpenBaseline(peers)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := WriteBars(&want, r, base); err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(name + ".svg"); err != nil || !bytes.Equal(have, want.Bytes()) {
			docs := strings.TrimPrefix(name, "../")
			t.Errorf("%s.svg is stale (%v). This command draws it:\nvkc bench --from %s.json --against %s-peers.json "+
				"--chart %s.svg", docs, err, docs, docs, docs)
		}
		compared := map[string]bool{}
		for _, c := range base.Compare(r) {
			compared[c.Result.Name] = true
			if c.Ratio < 0.1 || c.Ratio > 50 {
				t.Errorf("%s has %g times the speed of %s", c.Result.Name, c.Ratio, c.Point.By)
			}
		}
		if len(compared) != len(r.Results) {
			t.Errorf("%s: %d of %d results have a figure to compare with", name, len(compared), len(r.Results))
		}
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
	for _, want := range []string{`width="164.0"`, `width="82.0"`, ">1,500<", ">3,000<", "x&amp;y", "prefers-color-scheme:dark",
		"a&lt;b: generating 128 tokens after 4096"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("the chart lacks %s:\n%s", want, svg.String())
		}
	}
	if n := strings.Count(svg.String(), "<rect"); n != 2 {
		t.Errorf("the chart has %d bars, want 2", n)
	}
	times := baseline(t, "", `{"case":"add/f32/64","by":"z","us":100}`)
	svg.Reset()
	if err := WriteBars(&svg, sample(), times); err != nil || !strings.Contains(svg.String(), ">Microseconds<") ||
		strings.Count(svg.String(), "<rect") != 2 || !strings.Contains(svg.String(), `width="82.0"`) {
		t.Errorf("a chart of times, of which one has a peer: %v\n%s", err, svg.String())
	}
	if err := WriteBars(io.Discard, sample(), nil); err == nil || !strings.Contains(err.Error(), "-m") {
		t.Errorf("without a rate: %v", err)
	}
	if list := base.Compare(r); len(list) != 1 || list[0].Ratio != 0.5 {
		t.Errorf("comparisons: %v", list)
	}
}
