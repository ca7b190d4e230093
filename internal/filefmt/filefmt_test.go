package filefmt

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

func TestErrorNamesItsPlace(t *testing.T) {
	err := Source{Format: "gguf", Path: "a.gguf"}.Errorf(12, "version %d: want %d", 9, 3)
	if got, want := err.Error(), "gguf: a.gguf: at byte 12: version 9: want 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var e *Error
	if !errors.As(err, &e) || e.Pos != 12 {
		t.Errorf("got %#v, want an *Error at 12", err)
	}
	if got, want := (Source{Format: "npy"}).Errorf(0, "x").Error(), "npy: at byte 0: x"; got != want {
		t.Errorf("without a path: got %q, want %q", got, want)
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"kitten", "sitting", 3}, {"flaw", "lawn", 2},
	} {
		if got := editDistance(c.a, c.b); got != c.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	have := []string{"output.weight", "blk.1.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_q.weight"}
	got := Nearest("blk.0.attnq.weight", have, 2)
	if want := []string{"blk.0.attn_q.weight", "blk.0.attn_k.weight"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Nearest("x", have[:1], 5); len(got) != 1 {
		t.Errorf("asked for more than there are: got %q", got)
	}
}

func TestUnknown(t *testing.T) {
	s := Source{Format: "gguf", Path: "a.gguf"}
	for _, part := range []string{"a.gguf", `no tensor "wq"`, "among 2", "nearest: wk, bias"} {
		if err := s.Unknown("tensor", "wq", []string{"bias", "wk"}); !strings.Contains(err.Error(), part) {
			t.Errorf("error %q lacks %q", err, part)
		}
	}
	if err := s.Unknown("tensor", "wq", nil); !strings.Contains(err.Error(), "has none") {
		t.Errorf("empty file: got %q", err)
	}
}

func TestByteSize(t *testing.T) {
	for _, c := range []struct {
		dtype ir.DType
		dims  []int
		want  int64 // -1 for an error
	}{
		{ir.F32, nil, 4},
		{ir.F16, []int{2, 3}, 12},
		{ir.F16, []int{2, 0}, 0},
		{ir.Q4_0, []int{3, 64}, 3 * 2 * 18},
		{ir.Q4_0, []int{64, 3}, -1}, // a row is not a whole number of blocks
		{ir.Q4_0, nil, -1},
		{ir.U8, []int{-1}, -1},
		{ir.U8, []int{1 << 30, 1 << 30, 1 << 30}, -1},
		{ir.U8, make([]int, ir.MaxRank+1), -1},
		{ir.Invalid, []int{1}, -1},
	} {
		got, err := ByteSize(c.dtype, c.dims)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("ByteSize(%s, %v) = %d, %v, want %d", c.dtype, c.dims, got, err, c.want)
		}
	}
}

func TestWriteFile(t *testing.T) {
	s := Source{Format: "npy", Path: filepath.Join(t.TempDir(), "a.npy")}
	broken := errors.New("broken")
	if err := s.WriteFile(func(io.Writer) error { return broken }); !errors.Is(err, broken) ||
		!strings.Contains(err.Error(), s.Path) {
		t.Errorf("got %v, want the writer's error with the path", err)
	}
	if _, err := os.Stat(s.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a failed write left a file (%v)", err)
	}
	err := s.WriteFile(func(w io.Writer) error { _, err := io.WriteString(w, "content"); return err })
	if got, rerr := os.ReadFile(s.Path); err != nil || string(got) != "content" {
		t.Errorf("got %q, %v, %v", got, err, rerr)
	}
}

func TestIsBundle(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          bool
	}{
		{"x", "\x89VKB\r\n", true},
		{"x.VKB", "damaged", true},
		{"x.json", "{}", false},
		{"x.json2", "\x89VK", false},
		{"empty", "", false},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := IsBundle(path); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	if _, err := IsBundle(filepath.Join(t.TempDir(), "x.vkb")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestPartOf(t *testing.T) {
	for name, want := range map[string][2]uint64{
		"dir/m-00001-of-00002.gguf": {1, 2}, "m-00003-of-00003.safetensors": {3, 3}, "m-1-of-4.GGUF": {1, 4},
		"m-00001-of-00001.gguf": {1, 1}, "m.gguf": {}, "m-00000-of-00002.gguf": {}, "m-00003-of-00002.gguf": {},
		"m-00001-of-00002.gguf/m.gguf": {}, "m-99999999999-of-99999999999.gguf": {}, "-of-.gguf": {}, "": {},
	} {
		if part, of := PartOf(name); part != want[0] || of != want[1] {
			t.Errorf("%s: part %d of %d, want %v", name, part, of, want)
		}
	}
	for _, c := range [][2]string{
		{SiblingPart("d-1-of-2/m-00001-of-00012.gguf", 12), "d-1-of-2/m-00012-of-00012.gguf"},
		{SiblingPart("m-1-of-4.GGUF", 3), "m-3-of-4.GGUF"},
		{SiblingPart("m.gguf", 3), "m.gguf"},
		{PartPath("d/m.gguf", 1, 3), "d/m-00001-of-00003.gguf"},
		{PartPath("m-00001-of-00002.gguf", 4, 5), "m-00004-of-00005.gguf"},
		{PartPath("m", 1, 1), "m-00001-of-00001"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s, want %s", c[0], c[1])
		}
	}
}
