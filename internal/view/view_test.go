package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/codegen/device"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/runtime"
)

// layers is a chain of equal layers between two other nodes.
func layers(t *testing.T, n int) *ir.Graph {
	t.Helper()
	g, err := frontend.Build("layers", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 64, 256).Exp()
		for i := range n {
			name := func(s string) string { return fmt.Sprintf("blk.%d.%s", i, s) }
			h := x.RMSNorm(b.Weight(name("norm"), ir.F32, 256), 1e-5)
			h = h.MatMulT(b.Weight(name("up"), ir.F32, 512, 256)).Silu()
			x = h.MatMulT(b.Weight(name("down"), ir.F32, 256, 512)).Add(x)
		}
		b.Output("y", x.Sum(1))
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func collect(t *testing.T, g *ir.Graph, profile string) *Record {
	t.Helper()
	caps, err := device.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Collect(t.Context(), g, caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecord checks that a record hangs together: all indices in it are in range, and each kernel, shader and buffer is
// described.
func TestRecord(t *testing.T) {
	scan, err := frontend.Build("scan", func(b *frontend.Builder) {
		x := b.Input("x", ir.F32, 5, 4)
		first := []frontend.Tensor{b.Input("h", ir.F32, 4)}
		last, all := b.Scan(first, []frontend.Tensor{x}, func(h, x []frontend.Tensor) (next, outs []frontend.Tensor) {
			next = []frontend.Tensor{h[0].Add(x[0]).Tanh()}
			return next, next
		})
		b.Output("h", last[0])
		b.Output("all", all[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*ir.Graph{layers(t, 3), scan} {
		for _, profile := range []string{"generic", "nvidia-h100"} {
			r := collect(t, g, profile)
			checkRecord(t, r)
			if last := r.Passes[len(r.Passes)-1]; last.Name != "plan" || r.Graphs[last.After].Kind != KernelGraph {
				t.Errorf("the last pass is %s, and leaves a graph of %s", last.Name, r.Graphs[last.After].Kind)
			}
			found := 0
			for _, k := range r.Kernels {
				if len(k.Nodes) > 0 && len(k.Stored) > 0 {
					found++
				}
			}
			if found == 0 {
				t.Errorf("%s for %s: no kernel names the nodes that it computes", g.Name, profile)
			}
		}
	}
	r := collect(t, scan, "generic")
	bodies := 0
	for _, g := range r.Graphs {
		for _, n := range g.Nodes {
			if n.Body > 0 {
				bodies++
			}
		}
	}
	if bodies == 0 {
		t.Error("the loop has no body")
	}
}

func checkRecord(t *testing.T, r *Record) {
	t.Helper()
	ref := func(what string, list ...Ref) {
		for _, x := range list {
			if x < 0 || int(x) >= len(r.Strings) {
				t.Fatalf("%s: string %d of %d", what, x, len(r.Strings))
			}
		}
	}
	index := func(what string, n int, list ...int) {
		for _, x := range list {
			if x < 0 || x >= n {
				t.Fatalf("%s: index %d of %d", what, x, n)
			}
		}
	}
	if r.Strings[0] != "" {
		t.Errorf("string 0 is %q", r.Strings[0])
	}
	at := 0
	for _, p := range r.Passes {
		index(p.Name, len(r.Graphs), p.Before, p.After)
		index(p.Name, len(r.Graphs[p.Before].Nodes), p.Removed...)
		index(p.Name, len(r.Graphs[p.After].Nodes), p.Added...)
		if p.Before != at || p.Changed == (p.Before == p.After) || p.Why == "" {
			t.Errorf("pass %+v follows graph %d", p, at)
		}
		at = p.After
	}
	for _, g := range r.Graphs {
		for i, n := range g.Nodes {
			index("arguments", i, n.Args...) // each comes earlier
			index("body", len(r.Graphs), n.Body)
			ref("node", n.Op, n.Type, n.Attrs, n.Name, n.Pos, n.In, n.Why, n.Out)
		}
		for _, group := range g.Groups {
			index("group", len(g.Nodes)+1, group.Starts...)
			if len(group.Starts) != len(group.Names)+1 || !slices.IsSorted(group.Starts) {
				t.Errorf("group %+v", group)
			}
		}
	}
	for i, k := range r.Kernels {
		index(k.Name, len(r.Shaders), k.Shader)
		index(k.Name, len(r.Decisions), k.Decisions...)
		for _, b := range k.Binds {
			index(k.Name, len(r.Buffers), b.Buffer)
			if life := r.Buffers[b.Buffer]; i < life.First || i > life.Last {
				t.Errorf("kernel %d uses buffer %d, which lives from %d to %d", i, b.Buffer, life.First, life.Last)
			}
		}
		if k.Schedule == "" || k.Grid == "" || len(k.Ops) == 0 || k.Text == "" {
			t.Errorf("kernel %+v", k)
		}
	}
	for _, s := range r.Shaders {
		ref(s.Name, s.Lines...)
		if len(s.Lines) != strings.Count(s.Source, "\n") {
			t.Errorf("shader %s has %d lines, and ops of %d", s.Name, strings.Count(s.Source, "\n"), len(s.Lines))
		}
	}
	for i, a := range r.Buffers {
		ref(a.Name, a.Type)
		for j, b := range r.Buffers[:i] {
			apart := a.Last < b.First || b.Last < a.First ||
				a.Offset+a.Bytes <= b.Offset || b.Offset+b.Bytes <= a.Offset
			if a.Kind == kernel.BufTemp && b.Kind == kernel.BufTemp && !apart {
				t.Errorf("buffers %d and %d share bytes at one time: %+v, %+v", j, i, a, b)
			}
		}
	}
}

// TestGroups checks that layers are found, and named by their weights, in graphs of ops and of kernels.
func TestGroups(t *testing.T) {
	r := collect(t, layers(t, 5), "generic")
	for _, at := range []int{r.Passes[0].Before, r.Passes[len(r.Passes)-1].After} {
		g := r.Graphs[at]
		if len(g.Groups) != 1 {
			t.Fatalf("%d groups in a graph of %s, want 1: %+v", len(g.Groups), g.Kind, g.Groups)
		}
		want := []string{"blk.0", "blk.1", "blk.2", "blk.3", "blk.4"}
		if g.Kind == KernelGraph { // the first and the last layer share kernels with the nodes around them
			want = want[1:4]
		}
		if have := g.Groups[0].Names; !slices.Equal(have, want) {
			t.Errorf("a graph of %s has the groups %q, want %q", g.Kind, have, want)
		}
	}
	for _, tt := range []struct {
		name, sequence string
		want           []run
	}{
		{"nothing repeats", "abcdefg", nil},
		{"too short to fold", "xababab", nil},
		{"once more", "xabcabcy", []run{{1, 7, 3}}},
		{"a part of a copy more", "xabcabcab", []run{{1, 9, 3}}},
		{"two kinds of blocks", "abcabcabcxdefgdefg", []run{{0, 9, 3}, {10, 18, 4}}},
		{"blocks of blocks", "abcabcxabcabcx", []run{{0, 14, 7}}},
		{"one op again and again", "xaaaaaaaay", nil},
	} {
		var sums []uint64
		for _, r := range tt.sequence {
			sums = append(sums, uint64(r))
		}
		have := findRuns(sums)
		slices.SortFunc(have, func(a, b run) int { return a.from - b.from })
		if !slices.Equal(have, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, have, tt.want)
		}
	}
}

// TestDifference checks which nodes a pass is said to add and remove.
func TestDifference(t *testing.T) {
	g := passtest.Parse(t, `
		%x = input {name="x", dtype=f32, shape=[4]}
		%1 = exp %x
		%2 = exp %x
		%3 = add %1, %2
		%4 = neg %3
		%5 = neg %4
		output "o" %5`)
	r := collect(t, g, "generic")
	ops := func(p Pass, graph int, list []int) string {
		var names []string
		for _, i := range list {
			names = append(names, r.Strings[r.Graphs[graph].Nodes[i].Op])
		}
		return strings.Join(names, " ")
	}
	for _, p := range r.Passes {
		switch have := ops(p, p.Before, p.Removed) + " / " + ops(p, p.After, p.Added); p.Name {
		case "cse":
			if have != "exp / " {
				t.Errorf("cse: %s", have)
			}
		case "round_rows":
			if have != " / " {
				t.Errorf("round_rows: %s", have)
			}
		}
	}
}

// TestLines checks that lines of GLSL name the ops that they compute.
func TestLines(t *testing.T) {
	g := passtest.Parse(t, `
		%x = input {name="x", dtype=f32, shape=[64,256]}
		%y = input {name="y", dtype=f32, shape=[256,64]}
		%1 = matmul %x, %y
		%2 = exp %1
		%3 = mul %2, %1
		%4 = log %x
		output "o" %3
		output "p" %4`)
	r := collect(t, g, "generic")
	seen := map[string]int{}
	for _, s := range r.Shaders {
		for i, line := range strings.Split(strings.TrimSuffix(s.Source, "\n"), "\n") {
			for op := range strings.SplitSeq(r.Strings[s.Lines[i]], ", ") {
				seen[op]++
				if (op == "exp" || op == "log") && !strings.Contains(line, op) {
					t.Errorf("%s: %q is said to compute %s", s.Name, line, op)
				}
			}
		}
	}
	softmax, err := frontend.Build("softmax", func(b *frontend.Builder) {
		b.Output("y", b.Input("x", ir.F32, 64, 1000).Softmax(-1))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range collect(t, softmax, "generic").Strings {
		if strings.HasPrefix(s, "softmax: ") && strings.Contains(s, "exp") {
			seen["exp of softmax"]++
		}
	}
	for _, op := range []string{"matmul", "exp", "mul", "log", "load", "exp of softmax"} {
		if seen[op] == 0 {
			t.Errorf("no line computes %s: %v", op, seen)
		}
	}
}

// TestDecisions checks that the record has the compiler's decisions, and that kernels name those about them.
func TestDecisions(t *testing.T) {
	r := collect(t, layers(t, 2), "nvidia-h100")
	priced, left, named := 0, 0, 0
	for _, d := range r.Decisions {
		if d.Before > 0 && d.After > 0 {
			priced++
		}
		if !d.Taken {
			left++
		}
	}
	for _, k := range r.Kernels {
		named += len(k.Decisions)
		if k.Price <= 0 {
			t.Errorf("kernel %s has no price", k.Name)
		}
	}
	if priced == 0 || left == 0 || named == 0 {
		t.Errorf("%d priced decisions, %d left, %d named by kernels: %+v", priced, left, named, r.Decisions)
	}
}

// TestReadRuns checks that a trace that package runtime writes is read back.
func TestReadRuns(t *testing.T) {
	profile := &runtime.Profile{Began: time.Unix(100, 0), Wall: 50 * time.Microsecond,
		Offset:  10 * time.Microsecond,
		Host:    []runtime.HostSpan{{Name: "upload", Start: 0, Nanos: 5000}},
		Kernels: []runtime.KernelTime{{Name: "matmul", Ops: []string{"matmul"}, Schedule: "tile", Nanos: 2000}}}
	var b bytes.Buffer
	err := runtime.WriteTrace(&b, runtime.Trace{Name: "gpu", Profile: profile},
		runtime.Trace{Name: "other", Profile: profile})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := ReadRuns(&b, "/some/where/A.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 2 || runs[0].Name != "gpu" || runs[0].File != "A.json" || runs[1].Name != "other" {
		t.Fatalf("runs: %+v", runs)
	}
	host, dev := runs[0].Lanes[0], runs[0].Lanes[1]
	if host.Name != "host" || len(host.Spans) != 2 || host.Spans[1].Name != "upload" || host.Spans[1].Took != 5 {
		t.Errorf("host: %+v", host)
	}
	if !strings.HasPrefix(dev.Name, "device") || len(dev.Spans) != 1 || dev.Spans[0].Start != 10 ||
		dev.Spans[0].Args["schedule"] != "tile" {
		t.Errorf("device: %+v", dev)
	}
	for _, text := range []string{"", "{}", "[]", `{"traceEvents": 3}`, "no JSON"} {
		_, err := ReadRuns(strings.NewReader(text), "x")
		if err == nil || !strings.Contains(err.Error(), "vkc run --trace") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestHTML checks that the page has the record in it, whatever names it has, and refers to nothing elsewhere.
func TestHTML(t *testing.T) {
	r := &Record{Title: `</script><b>"&`, Strings: []string{"", "</SCRIPT><!--\u2028"}}
	page, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	s := string(page)
	_, data, _ := strings.Cut(s, `<script type="application/json" id="record">`)
	data, _, _ = strings.Cut(data, "</script>")
	var back Record
	err = json.Unmarshal([]byte(data), &back)
	if err != nil || back.Title != r.Title || back.Strings[1] != r.Strings[1] {
		t.Errorf("the record in the page is %q: %v", data, err)
	}
	if n := strings.Count(strings.ToLower(s), "<script"); n != 2 {
		t.Errorf("the page has %d scripts", n)
	}
	for _, elsewhere := range []string{"http://", "https://", "src=", "href=", "{{", "@import", "url("} {
		if i := strings.Index(s, elsewhere); i >= 0 {
			t.Errorf("the page has %q", s[i:min(len(s), i+60)])
		}
	}
}

// TestHandler checks who may read the page: only a request with the token that names this machine.
func TestHandler(t *testing.T) {
	h, path := Handler([]byte("page"))
	if _, other := Handler(nil); other == path || len(path) < 20 {
		t.Errorf("the paths %q and %q are no secrets", path, other)
	}
	for _, tt := range []struct {
		method, host, path string
		code               int
	}{
		{"GET", "127.0.0.1:8000", path, http.StatusOK},
		{"GET", "localhost:8000", path, http.StatusOK},
		{"GET", "[::1]:8000", path, http.StatusOK},
		{"HEAD", "127.0.0.1", path, http.StatusOK},
		{"GET", "elsewhere.example:8000", path, http.StatusForbidden},
		{"GET", "127.0.0.1.elsewhere.example", path, http.StatusForbidden},
		{"GET", "", path, http.StatusForbidden},
		{"GET", "127.0.0.1:8000", "/", http.StatusNotFound},
		{"GET", "127.0.0.1:8000", path + "x", http.StatusNotFound},
		{"POST", "127.0.0.1:8000", path, http.StatusMethodNotAllowed},
	} {
		r := httptest.NewRequest(tt.method, "/", nil)
		r.Host, r.URL.Path = tt.host, tt.path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.code {
			t.Errorf("%s %s of %q: %d, want %d", tt.method, tt.path, tt.host, w.Code, tt.code)
		}
		if w.Code != http.StatusOK && strings.Contains(w.Body.String(), path) {
			t.Errorf("the answer tells the path: %s", w.Body)
		}
	}
}
