package passes_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/passtest"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// TestRandomMoves: kernels move next to other kernels, past those that read and write the same states, without changing
// any value that is read.
func TestRandomMoves(t *testing.T) {
	t.Parallel()
	graphs := passtest.Few(60)
	joined := map[string]int{}
	for seed := range uint64(graphs) {
		g := randomMoves(t, seed)
		if _, _, err := passtest.CheckRandom(g, seed, 3); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, g)
			continue
		}
		s, err := passes.Run(g, passes.Options{Pricer: passtest.Choices{Take: passtest.FuseAll}})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range s.Kernels {
			for _, with := range []string{"rms_norm_matmul", "scatter"} {
				if strings.Contains(k.Name, "matmul") && strings.Contains(k.Name, with) {
					joined[with]++
				}
			}
		}
	}
	if joined["rms_norm_matmul"] < graphs/4 || joined["scatter"] < graphs/4 {
		t.Errorf("of %d graphs, kernels moved to products: %v; want a quarter of each at least", graphs, joined)
	}
}

// moves makes a graph of rows, norms and matmuls of them, and slices of the results that are written to states, at
// positions that may also come from states. All states may be read before and after the writes.
type moves struct {
	*rand.Rand
	rows        string // number of rows, or a symbol
	lines, ends []string
	places      string // positions of rows in a state
	x           string // the latest rows
}

const movesDepth = 16 // of rows

func randomMoves(t *testing.T, seed uint64) *ir.Graph {
	t.Helper()
	m := &moves{Rand: rand.New(rand.NewPCG(seed, 41))}
	m.rows = m.pick("1", "2", "B", "B")
	m.line("symbol B <= 3")
	m.line(`%%length = input {name="length", dtype=f32, shape=[B]}`)
	m.end(`output "length" %%length`)
	m.line(`%%x = input {name="x", dtype=f32, shape=[%s,%d]}`, m.rows, movesDepth)
	m.x = "%x"
	if m.rows != "B" {
		m.line(`%%s = state {name="s", dtype=f32, shape=[%s,%d]}`, m.rows, movesDepth)
		m.x = m.pick("%x", "%s")
	}
	m.findPlaces()
	for i := range 1 + m.IntN(3) {
		from := m.x
		if m.IntN(4) > 0 {
			from = fmt.Sprintf("%%n%d", i)
			m.line(`%s = rms_norm %s {eps=0.01}`, from, m.x)
		}
		m.product(i, from)
	}
	if m.rows != "B" && m.coin() {
		m.line(`%%set = %s`, m.pick("add %s, %x", "sigmoid "+m.x))
		m.end(`update %%s = %%set`)
	}
	slices.SortStableFunc(m.ends, func(a, b string) int { return strings.Compare(a[:1], b[:1]) }) // outputs first
	text := "graph \"moves\" {\n" + strings.Join(append(m.lines, m.ends...), "\n") + "\n}"
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return g
}

func (m *moves) coin() bool                 { return m.IntN(2) == 0 }
func (m *moves) pick(list ...string) string { return list[m.IntN(len(list))] }
func (m *moves) line(format string, args ...any) {
	m.lines = append(m.lines, fmt.Sprintf(format, args...))
}
func (m *moves) end(format string, args ...any) {
	m.ends = append(m.ends, fmt.Sprintf(format, args...))
}

// findPlaces says where rows go, each elsewhere: computed in line, by a kernel that others take them from too, or kept.
func (m *moves) findPlaces() {
	m.line(`%%first = input {name="first", dtype=i32, shape=[]}`)
	m.line(`%%row = iota {dtype=i32, axis=0, shape=[%s]}`, m.rows)
	m.line(`%%at = add %%row, %%first`)
	m.places = "%at"
	switch {
	case m.coin():
		m.end(`output "at" %%at`)
	case m.rows != "B":
		m.line(`%%kept = state {name="kept", dtype=i32, shape=[%s]}`, m.rows)
		m.line(`%%one = const {data=i32[](1)}`)
		m.line(`%%later = add %%kept, %%one`)
		m.end(`update %%kept = %%later`)
		m.line(`%%from = add %%at, %s`, m.pick("%kept", "%later"))
		m.places = "%from"
	}
}

// product adds a matmul of rows. Each slice of the result becomes an output or is written to a state.
func (m *moves) product(i int, from string) {
	heads, dim, parts := 1+m.IntN(2), 2*(1+m.IntN(2)), 1+m.IntN(3)
	width := heads * dim
	m.line(`%%w%d = weight {name="w%d", dtype=f32, shape=[%d,%d]}`, i, i, parts*width, movesDepth)
	m.line(`%%p%d = matmul %s, %%w%d {transpose_b=true}`, i, from, i)
	if m.IntN(3) == 0 {
		m.end(`output "p%d" %%p%d`, i, i)
	}
	state := "" // the next slice may be written to it too
	for part := range parts {
		id := fmt.Sprintf("%d%d", i, part)
		m.line(`%%c%s = slice %%p%d {starts=[0,%d], limits=[%s,%d]}`, id, i, part*width, m.rows, (part+1)*width)
		m.line(`%%h%s = reshape %%c%s {shape=[%s,%d,%d]}`, id, id, m.rows, heads, dim)
		m.line(`%%t%s = transpose %%h%s {perm=[1,0,2]}`, id, id)
		v := "%t" + id
		if m.IntN(3) == 0 {
			m.line(`%%g%s = sigmoid %s`, id, v)
			v = "%g" + id
		}
		if m.IntN(4) == 0 {
			m.end(`output "o%s" %s`, id, v)
			continue
		}
		into := state
		if into == "" || m.coin() {
			into = "%k" + id
			m.line(`%%k%s = state {name="k%s", dtype=f32, shape=[%d,7,%d]}`, id, id, heads, dim)
		}
		m.line(`%%a%s = reshape %s {shape=[1,%s,1]}`, id, m.places, m.rows)
		m.line(`%%b%s = broadcast %%a%s {shape=[%d,%s,%d]}`, id, id, heads, m.rows, dim)
		m.line(`%%e%s = scatter %s, %%b%s, %s {axis=1, unique=true}`, id, into, id, v)
		m.set(into, "%e"+id)
		state = "%e" + id
		switch seen := m.pick(into, "%e"+id); m.IntN(3) { // before or after it is written
		case 0:
			m.line(`%%f%s = sum %s {axes=[1]}`, id, seen)
			m.end(`output "f%s" %%f%s`, id, id)
		case 1:
			m.line(`%%m%s = reduce_max %s {axes=[0,1,2]}`, id, seen)
			m.line(`%%y%s = add %s, %%m%s`, id, m.x, id)
			m.x = "%y" + id
		}
	}
}

// set writes to a state, either to its old value or to the result of an earlier write.
func (m *moves) set(into, after string) {
	for i, end := range m.ends {
		if before, ok := strings.CutSuffix(end, " = "+into); ok {
			m.ends[i] = before + " = " + after
			return
		}
	}
	m.end(`update %s = %s`, into, after)
}
