package ir

import (
	"bytes"
	"errors"
	"testing"
)

// TestDTypeNumbers: names and GGUF numbers lead back to their type, and
// blocks are whole.
func TestDTypeNumbers(t *testing.T) {
	for _, dt := range DTypes() {
		if back, err := ParseDType(dt.String()); err != nil || back != dt {
			t.Errorf("%s parses as %s, %v", dt, back, err)
		}
		if n, ok := dt.GGML(); ok {
			if back, ok := DTypeOfGGML(n); !ok || back != dt {
				t.Errorf("GGUF number %d of %s is %s", n, dt, back)
			}
		}
		if n, err := dt.BytesFor(3 * int64(dt.BlockElems())); err != nil || n != 3*int64(dt.BlockBytes()) {
			t.Errorf("3 blocks of %s take %d bytes, %v", dt, n, err)
		}
	}
	if dt, ok := DTypeOfGGML(1 << 20); ok {
		t.Errorf("GGUF number 2^20 is %s", dt)
	}
	for n, dt := range map[int64]DType{-1: F32, 33: Q4_0, 1 << 39: F32, 1: Invalid} {
		if size, err := dt.BytesFor(n); err == nil {
			t.Errorf("%d elements of %s take %d bytes", n, dt, size)
		}
	}
}

// TestAttrsWiden: attributes take the Go numbers that callers write.
func TestAttrsWiden(t *testing.T) {
	b := &builder{t: t, g: NewGraph("g")}
	x := b.leaf(OpInput, "x", ShapeOf(2, 3))
	elu := b.add(OpElu, []*Node{x}, Attr{"alpha", 2})
	sum := b.add(OpSum, []*Node{x}, Attr{"axes", []int{1}})
	soft := b.add(OpSoftmax, []*Node{x}, Attr{"axis", 0})
	powf := b.add(OpPowf, []*Node{x}, Attr{"exponent", int64(3)})
	if a := elu.Attrs().Float("alpha"); a != 2 {
		t.Errorf("alpha is %g", a)
	}
	if a := sum.Attrs().Ints("axes"); len(a) != 1 || a[0] != 1 {
		t.Errorf("axes is %v", a)
	}
	if a := soft.Attrs().Int("axis"); a != 0 || !soft.Attrs().Has("axis") || soft.Attrs().Has("axes") {
		t.Errorf("axis is %d", a)
	}
	if a := powf.Attrs().Float("exponent"); a != 3 {
		t.Errorf("exponent is %g", a)
	}
	users := b.g.Users()
	if got := users[x.ID()]; len(got) != 4 || got[0] != elu || got[3] != powf || len(users[elu.ID()]) != 0 {
		t.Errorf("users of x are %v", got)
	}
}

// TestWriteJSON: a writer's error is the caller's.
func TestWriteJSON(t *testing.T) {
	g, err := Parse(hashBase)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := g.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	if text, _ := g.MarshalJSONText(); b.String() != string(text) {
		t.Error("WriteJSON and MarshalJSONText differ")
	}
	if err := g.WriteJSON(failingWriter{}); err != errWrite {
		t.Errorf("have %v", err)
	}
}

type failingWriter struct{}

var errWrite = errors.New("disk full")

func (failingWriter) Write([]byte) (int, error) { return 0, errWrite }
