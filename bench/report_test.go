package bench

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/ir"
)

// sample is a report with a case of every kind.
func sample() *Report {
	return &Report{
		Format: ReportFormat, Device: "card <1>", Driver: "d 1", API: "1.3.0", Version: "v1", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Ceilings: Ceilings{Machine: device.Machine{CopyGBps: 1000, VectorF32: 50, MatrixF16: 500}},
		Results: []Result{
			{Suite: "matmul", Name: "matmul/f16/64x64x64", Status: OK, Micros: 100, TFlops: 200, GBps: 10, Share: 0.4, Bound: "arithmetic", Flops: 2e10, Moved: 1e6, Kernels: 1, Schedules: []string{"tile", "map"}},
			{Suite: "memory", Name: "add/f32/64", Status: OK, Micros: 50, GBps: 960, Share: 0.96, Bound: "memory", Moved: 4.8e7, Kernels: 1},
			{Suite: "memory", Name: "pad/f32/64", Status: Refused, Why: "no a|b"},
			{Suite: "model", Name: "launch/dependent/10", Status: OK, Micros: 25, Each: 2.5, Submit: 7, Moved: 10, Kernels: 10},
			{Suite: "model", Name: "forward", Status: OK, Micros: 60, Moved: 1e6, Kernels: 3},
			{Suite: "model", Name: "bad", Status: Wrong, Why: "output"},
		},
	}
}

func baseline(t *testing.T, goals string, points string) *Baseline {
	t.Helper()
	b, err := parseBaseline("x", []byte(
		`{"format":"vkc.anchors.1","device":"other","about":"a","anchors":[`+points+`],"goals":[`+goals+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCompare(t *testing.T) {
	b := baseline(t, "", `{"case":"matmul/f16/64x64x64","by":"A","tflops":400},{"case":"matmul/f16/64x64x64","by":"B","us":50},
		{"case":"add/f32/64","by":"C","gbps":480},{"case":"add/f32/64","by":"D","tflops":1},{"case":"pad/f32/64","by":"E","us":1},{"case":"other","by":"F","us":1}`)
	var got []string
	list := b.Compare(sample())
	for _, c := range list {
		got = append(got, c.Point.By+" "+digits(c.Ratio))
	}
	if want := "A 0.500, B 0.500, C 2.00"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if err := Regressed(list, 101); err != nil {
		t.Errorf("past 101 %%: %v", err)
	}
	if err := Regressed(list, 99); err == nil || !strings.Contains(err.Error(), "2 of 3 comparisons") ||
		!strings.Contains(err.Error(), "100.0% more than 50.00 us (B)") {
		t.Errorf("past 99 %%: %v", err)
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		goal       string
		want, have string
		reached    bool
	}{
		{`"case":"matmul/f16/64x64x64","tflops":200`, ">= 200.0 TFLOP/s", "200.0 TFLOP/s", true},
		{`"case":"matmul/f16/64x64x64","tflops":201`, ">= 201.0 TFLOP/s", "200.0 TFLOP/s", false},
		{`"case":"add/f32/64","us":50`, "<= 50.00 us", "50.00 us", true},
		{`"case":"add/f32/64","us":49`, "<= 49.00 us", "50.00 us", false},
		{`"case":"add/f32/64","copy":0.96`, ">= 960.0 GB/s", "960.0 GB/s", true},
		{`"case":"add/f32/64","copy":0.97`, ">= 970.0 GB/s", "960.0 GB/s", false},
		{`"case":"launch/dependent/10","each":2.5`, "<= 2.50 us a kernel", "2.50 us a kernel", true},
		{`"case":"launch/dependent/10","each":2.4`, "<= 2.40 us a kernel", "2.50 us a kernel", false},
		{`"case":"forward","times":1.2,"of":"add/f32/64"`, "<= 60.00 us", "60.00 us", true},
		{`"case":"forward","times":1.1,"of":"add/f32/64"`, "<= 55.00 us", "60.00 us", false},
		{`"case":"forward","times":1.1,"of":"pad/f32/64"`, "<= - us", "", false},
		{`"case":"pad/f32/64","us":49`, "<= 49.00 us", "", false},
		{`"case":"missing","tflops":49`, ">= 49.00 TFLOP/s", "", false},
		{`"case":"add/f32/64","ahead":1.2,"by":"other"`, "<= 50.00 us", "50.00 us", true},
		{`"case":"add/f32/64","ahead":1.25,"by":"other"`, "<= 48.00 us", "50.00 us", false},
	} {
		v := baseline(t, "{"+tt.goal+`,"why":"w"}`, `{"case":"add/f32/64","by":"other","us":60}`).Judge(sample())[0]
		if v.Want != tt.want || v.Have != tt.have || v.Reached != tt.reached {
			t.Errorf("%s: %+v", tt.goal, v)
		}
	}
}

func TestBaselineRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{``, "neither"},
		{`{}`, "format"},
		{`{"format":"vkc.anchors.1","anchors":[{"case":"a","by":"b"}]}`, "one time or rate"},
		{`{"format":"vkc.anchors.1","anchors":[{"case":"a","by":"b","us":1,"gbps":2}]}`, "one time or rate"},
		{`{"format":"vkc.anchors.1","anchors":[{"case":"a","by":"b","us":-1}]}`, "one time or rate"},
		{`{"format":"vkc.anchors.1","goals":[{"case":"a"}]}`, "one number above 0"},
		{`{"format":"vkc.anchors.1","goals":[{"case":"a","times":2}]}`, "one number above 0"},
		{`{"format":"vkc.anchors.1","goals":[{"case":"a","us":2,"of":"b"}]}`, "one number above 0"},
		{`{"format":"vkc.anchors.1","goals":[{"case":"a","ahead":2}]}`, "one number above 0"},
		{`{"format":"vkc.anchors.1","goals":[{"case":"a","ahead":2,"by":"b"}]}`, "no anchor by"},
	} {
		if _, err := parseBaseline("x", []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// TestAnchors: the anchors in vkc are valid and refer to existing cases.
func TestAnchors(t *testing.T) {
	known := map[string]bool{}
	for _, c := range Cases(Full) {
		known[c.Name] = true
	}
	for name := range builtin {
		b, err := OpenBaseline(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range b.Points {
			if !known[p.Case] {
				t.Errorf("%s: an anchor of %s, which is no case", name, p.Case)
			}
		}
		for _, g := range b.Goals {
			if !known[g.Case] || g.Of != "" && !known[g.Of] || g.Why == "" {
				t.Errorf("%s: goal %+v: no such case, or no reason", name, g)
			}
		}
	}
}

func TestReportFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	text, err := json.Marshal(sample())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := ReadReport(path)
	if err != nil || len(r.Results) != 6 || r.Find("forward").Micros != 60 || r.Find("none") != nil {
		t.Errorf("%+v, %v", r, err)
	}
	b, err := OpenBaseline(path)
	if err != nil || len(b.Points) != 4 {
		t.Fatalf("%+v, %v", b, err)
	}
	for _, c := range b.Compare(r) {
		if c.Ratio != 1 {
			t.Errorf("%s is %v times as fast as itself", c.Result.Name, c.Ratio)
		}
	}
	if err := r.Err(); err == nil || !strings.Contains(err.Error(), "1 of 6 cases") ||
		!strings.Contains(err.Error(), "bad (wrong: output)") {
		t.Errorf("a wrong case: %v", err)
	}
}

func TestMerge(t *testing.T) {
	r := sample()
	later := &Report{Device: r.Device, Version: "v2", Ceilings: Ceilings{Machine: device.Machine{CopyGBps: 7}},
		Results: []Result{
			{Suite: "memory", Name: "add/f32/64", Status: OK, Micros: 40}, {Suite: "memory", Name: "new", Status: OK}, {Suite: "ops", Name: "last", Status: OK},
		}}
	if err := r.Merge(later); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, res := range r.Results {
		names = append(names, res.Name)
	}
	want := "matmul/f16/64x64x64 add/f32/64 pad/f32/64 new launch/dependent/10 forward bad last"
	if got := strings.Join(names, " "); got != want || r.Find("add/f32/64").Micros != 40 || r.Version != "v2" ||
		r.Ceilings.CopyGBps != 7 {
		t.Errorf("merged to %s, %+v", got, r)
	}
	if err := r.Merge(&Report{Device: "another"}); err == nil {
		t.Error("results of two devices were merged")
	}
}

func FuzzBaseline(f *testing.F) {
	text, err := json.Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(h100Anchors)
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parseBaseline("x", text)
		if err != nil {
			return
		}
		r := sample()
		b.Judge(r)
		if err := WritePage(io.Discard, r, b); err != nil {
			t.Error(err)
		}
		if r, err := parseReport(text); err == nil {
			if err := errors.Join(WriteSVG(io.Discard, r), r.WriteTable(io.Discard),
				b.WriteTable(io.Discard, r)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestPage(t *testing.T) {
	b := baseline(t, `{"case":"add/f32/64","copy":0.97,"why":"97 %"},{"case":"matmul/f16/64x64x64","us":100,"why":"w"}`,
		`{"case":"add/f32/64","by":"C","gbps":480}`)
	var page strings.Builder
	if err := WritePage(&page, sample(), b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Of 2 figures to reach, 1 are reached.", "\n### memory\n",
		"| add/f32/64 | 50.00 | - | 960.0 | 96 % memory | C 480.0 GB/s (2.00x) | >= 970.0 GB/s (97 %) | **no** |\n",
		"| pad/f32/64 | refused: no a\\|b |", "| launch/dependent/10 | 25.00 (2.50 each, submitted in 7.00) |",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("no %q in\n%s", want, page.String())
		}
	}
	doc := "before\n" + PageBegin + "\nold\n" + PageEnd + "\nafter\n"
	got, err := ReplacePage(doc, "new\n")
	if want := strings.Replace(doc, "old", "new", 1); err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ReplacePage("no lines", "new\n"); err == nil {
		t.Error("a document without the lines: no error")
	}
}

// TestSVG: the drawing is well-formed and has a mark for each case that was
// measured.
func TestSVG(t *testing.T) {
	for _, r := range []*Report{sample(), {}, {Results: sample().Results}} {
		var svg strings.Builder
		if err := WriteSVG(&svg, r); err != nil {
			t.Fatal(err)
		}
		titles := 0
		for dec := xml.NewDecoder(strings.NewReader(svg.String())); ; {
			token, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, svg.String())
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "title" {
				titles++
			}
		}
		want := 0
		if len(r.Results) > 0 {
			want = 1 // the matmul; the others have no share without a copy bandwidth
		}
		if r.Ceilings.CopyGBps > 0 {
			want = 3
		}
		if titles != want || strings.Contains(svg.String(), "NaN") || strings.Contains(svg.String(), "Inf") {
			t.Errorf("%d marks, want %d, in\n%s", titles, want, svg.String())
		}
	}
}

func TestShape(t *testing.T) {
	for _, tt := range []struct {
		one, window      time.Duration
		steps            int
		batches, replays int
	}{
		{time.Millisecond, 40 * time.Millisecond, 1, 40, 1},
		{time.Microsecond, 40 * time.Millisecond, 1, 64, 60},
		{20 * time.Millisecond, 40 * time.Millisecond, 1, 3, 1},
		{time.Second, 40 * time.Millisecond, 1, 1, 1},
		{2 * time.Millisecond, 40 * time.Millisecond, 1000, 16, 1},
		{10 * time.Microsecond, 40 * time.Millisecond, 200, 64, 1},
	} {
		if b, r := shape(tt.one, tt.window, tt.steps); b != tt.batches || r != tt.replays {
			t.Errorf("%+v: %d batches of %d", tt, b, r)
		}
	}
}

// TestNoShareAboveOne: a case that is faster than the probe raises the ceiling. Memory bandwidth is no ceiling for data
// that fits in the cache, and experts without tokens are not counted.
func TestNoShareAboveOne(t *testing.T) {
	r := &Report{Ceilings: Ceilings{Machine: device.Machine{CopyGBps: 1000, VectorF32: 10, MatrixF16: 90,
		MatrixI8: 100}}, Results: []Result{
		{Name: "beats the copy", Status: OK, Precision: NoFlops, GBps: 1470},
		{Name: "half of that", Status: OK, Precision: NoFlops, GBps: 735},
		{Name: "in the cache", Status: OK, Precision: MatrixF16, GBps: 9000, TFlops: 48, Cached: true},
		{Name: "split", Status: OK, Precision: SplitF32, TFlops: 32},
		{Name: "bytes", Status: OK, Precision: MatrixI8, TFlops: 200},
		{Name: "vectors", Status: OK, Precision: VectorF32, TFlops: 15},
		{Name: "wrong", Status: Wrong, Precision: VectorF32, TFlops: 99},
	}}
	r.Settle()
	if want := (Ceilings{Machine: device.Machine{CopyGBps: 1470, VectorF32: 15, MatrixF16: 96,
		MatrixI8: 200}}); r.Ceilings != want {
		t.Errorf("ceilings %+v, want %+v", r.Ceilings, want)
	}
	for i, want := range []float64{1, 0.5, 0.5, 1, 1, 1, 0} {
		if res := r.Results[i]; res.Share != want || (res.Bound == "memory") != (i < 2) {
			t.Errorf("%s: %v of %s, want %v", res.Name, res.Share, res.Bound, want)
		}
	}
	before := slices.Clone(r.Results)
	if r.Settle(); !slices.EqualFunc(before, r.Results, func(a, b Result) bool { return a.Share == b.Share }) {
		t.Error("settling twice changes shares")
	}

	few, all := expertsCase(Full, ir.F16, 1), expertsCase(Full, ir.F16, 512)
	weights := float64(128*768*2048) * 2
	if few.Cached || few.Moved > weights*8/128+1e6 || few.Moved < weights*7/128 || all.Moved < weights ||
		all.Moved > weights+1e8 {
		t.Errorf("8 of 128 experts move %.4g bytes, 4096 picks %.4g, and all weights are %.4g", few.Moved,
			all.Moved, weights)
	}
}
