package onnx_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/vkc-go/vkc/frontend/onnx"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestMutants damages models at random: each is an error or a graph that is right, and takes no more memory than a
// small multiple of the file and a fixed sum. VKC_TEST_MUTANTS says how many there are.
func TestMutants(t *testing.T) {
	count := 2000
	if text := os.Getenv("VKC_TEST_MUTANTS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("VKC_TEST_MUTANTS: %v", err)
		}
		count = n
	}
	var seeds [][]byte
	for _, files := range small() {
		seeds = append(seeds, files["model.onnx"])
	}
	slices.SortFunc(seeds, slices.Compare) // a map has no order
	if count > 2000 {
		more, err := filepath.Glob(suite + "/*/*/model.onnx")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range more {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			seeds = append(seeds, content)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that all allocations are measured
	graphs, worst, longest := 0, 0.0, time.Duration(0)
	for i := range count {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		mutant := mutated(r, seeds)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		m, err := onnx.NewReader(mutant, onnx.Options{})
		longest = max(longest, time.Since(start))
		runtime.ReadMemStats(&after)
		if err == nil {
			graphs++
			if err := m.Graph.Verify(); err != nil {
				t.Errorf("mutant %d: a graph that is not right: %v", i, err)
			}
		}
		allocated := float64(after.TotalAlloc - before.TotalAlloc)
		worst = max(worst, allocated-maxByteMultiple*float64(len(mutant)))
		if worst > maxBytes {
			t.Fatalf("mutant %d of %d bytes takes %.0f, error %v", i, len(mutant), allocated, err)
		}
		if after.HeapAlloc > 1<<28 {
			runtime.GC()
		}
	}
	t.Logf("%d mutants of %d models: %d are graphs; at most %.1f MiB more than %d times the file; the longest took %v",
		count, len(seeds), graphs, worst/(1<<20), maxByteMultiple, longest)
}

// Limits of memory for building a model: a multiple of its file size, plus a constant for small files with legitimately
// large results.
const (
	maxByteMultiple = 10
	maxBytes        = 2 << 20
)

// mutated damages one of the models, in its fields or in its bytes.
func mutated(r *rand.Rand, seeds [][]byte) []byte {
	b, other := slices.Clone(seeds[r.IntN(len(seeds))]), seeds[r.IntN(len(seeds))]
	for range 1 + r.IntN(3) {
		if r.IntN(4) > 0 {
			b = otherFields(r, b, other, 0)
		} else {
			b = otherBytes(r, b, other)
		}
	}
	return b
}

// Numbers at the ends of their range, and others that have a meaning in many places.
var ends = []uint64{0, 1, 2, 3, 7, 13, 127, 1 << 16, 1<<31 - 1, 1 << 31, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 2,
	1<<64 - 1}

// otherFields changes one field of a message, or of a message in it; lengths stay right. New content comes from the
// fields of that number in another message.
func otherFields(r *rand.Rand, b, other []byte, depth int) []byte {
	fields, others := fieldsOf(b), fieldsOf(other)
	if len(fields) == 0 {
		return otherBytes(r, b, other)
	}
	i := r.IntN(len(fields))
	var same []wireField
	for _, f := range others {
		if f.num == fields[i].num && f.wire == fields[i].wire {
			same = append(same, f)
		}
	}
	var donor []byte
	if len(same) > 0 {
		donor = same[r.IntN(len(same))].content
	}
	switch f := &fields[i]; {
	case r.IntN(12) == 0:
		fields = slices.Delete(fields, i, i+1)
	case r.IntN(12) == 0:
		fields = append(fields, *f)
	case r.IntN(12) == 0:
		k := r.IntN(len(fields))
		fields[i], fields[k] = fields[k], fields[i]
	case f.wire == protowire.VarintType:
		f.content = protowire.AppendVarint(nil, ends[r.IntN(len(ends))])
	case f.wire == protowire.BytesType && depth < 8 && len(fieldsOf(f.content)) > 0 && r.IntN(8) > 0:
		f.content = otherFields(r, f.content, donor, depth+1)
	case donor != nil && r.IntN(4) > 0:
		f.content = donor
	default:
		f.content = otherBytes(r, slices.Clone(f.content), donor)
	}
	var out []byte
	for _, f := range fields {
		out = protowire.AppendTag(out, f.num, f.wire)
		if f.wire == protowire.BytesType {
			out = protowire.AppendBytes(out, f.content)
		} else {
			out = append(out, f.content...)
		}
	}
	return out
}

type wireField struct {
	num     protowire.Number
	wire    protowire.Type
	content []byte // without its length
}

// fieldsOf are the fields of a message, or none if it is something else.
func fieldsOf(b []byte) (fields []wireField) {
	for len(b) > 0 {
		num, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil
		}
		size := protowire.ConsumeFieldValue(num, wire, b[n:])
		if size < 0 {
			return nil
		}
		content := b[n : n+size]
		if wire == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(content)
		}
		fields, b = append(fields, wireField{num, wire, content}), b[n+size:]
	}
	return fields
}

// otherBytes damages bytes wherever it is.
func otherBytes(r *rand.Rand, b, other []byte) []byte {
	if len(b) == 0 {
		return b
	}
	at := r.IntN(len(b))
	n := min(len(b)-at, 1+r.IntN(16))
	switch r.IntN(7) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
	case 1:
		b[at]++
	case 2:
		copy(b[at:], protowire.AppendVarint(nil, ends[r.IntN(len(ends))]))
	case 3:
		copy(b[at:at+n], b[r.IntN(len(b)):])
	case 4:
		if len(other) > 0 {
			copy(b[at:at+n], other[r.IntN(len(other)):])
		}
	case 5:
		b = slices.Insert(b, at, slices.Clone(b[at:at+n])...)
	case 6:
		b = slices.Delete(b, at, at+n)
	}
	return b
}
