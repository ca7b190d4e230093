package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vkc-go/vkc/internal/filefmt"
)

// small returns a bundle as bytes, with a weight section that is short enough
// to flip every byte of it.
func small(t testing.TB) []byte { return encoded(t, tiny(t)) }

// TestEveryFlip changes each bit of a bundle in turn. Each change must be
// found, at the latest by Verify, and never cause a panic.
func TestEveryFlip(t *testing.T) {
	b := small(t)
	for bit := range 8 * len(b) {
		i, mask := bit/8, byte(1)<<(bit%8)
		b[i] ^= mask
		f, err := Read(b)
		if err == nil {
			err = f.Verify()
		}
		if err == nil {
			t.Errorf("byte %d of %d changed by %#x: not noticed", i, len(b), mask)
		} else if !strings.Contains(err.Error(), wayOut) {
			t.Errorf("byte %d: %v: names no way out", i, err)
		}
		b[i] ^= mask
	}
}

// TestFlippedWeightIsNeverReturned is about the time between opening and Verify.
func TestFlippedWeightIsNeverReturned(t *testing.T) {
	b := small(t)
	sound, err := Read(slices.Clone(b))
	if err != nil {
		t.Fatal(err)
	}
	data := sound.Sections()[len(sound.Sections())-2]
	for i := data.Offset; i < data.end(); i++ {
		b[i] ^= 4
		f, err := Read(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range f.WeightNames() {
			have, err := f.Weight(name)
			want, _ := sound.Weight(name)
			if err == nil && !bytes.Equal(have.Bytes, want.Bytes) {
				t.Fatalf("byte %d changed: weight %q came back changed", i, name)
			}
		}
		b[i] ^= 4
	}
}

func TestEveryCut(t *testing.T) {
	b := small(t)
	for n := range b {
		_, err := Read(b[:n])
		if err == nil {
			t.Fatalf("%d of %d bytes: not noticed", n, len(b))
		}
		if n > headerSize && !strings.Contains(err.Error(), "cut short") {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if _, err := Read(append(slices.Clone(b), 0)); err == nil {
		t.Error("a byte too many: not noticed")
	}
}

func TestOpenErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.vkb")
	if _, err := Open(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	if err := os.WriteFile(path, small(t)[:500], 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path)
	var at *filefmt.Error
	if !errors.As(err, &at) || at.Path != path || at.Pos != 500 {
		t.Errorf("error %v, want one at byte 500 of %s", err, path)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %v", err)
	}
}

// TestLosesItsEnd truncates a mapped file. The missing part must not be accessed.
func TestLosesItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.vkb")
	b := small(t)
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Skip(err)
	}
	if _, err := f.Weight("w"); err == nil {
		t.Error("weight of a file that was cut: want an error")
	}
	if err := f.Verify(); err == nil {
		t.Error("Verify of a file that was cut: want an error")
	}
	if !bytes.Equal(f.SPIRV()[1], tiny(t).SPIRV[1]) {
		t.Error("SPIR-V changed after it was checked")
	}
}

func TestHeaderFaults(t *testing.T) {
	le := binary.LittleEndian
	tests := []struct {
		name   string
		change func(b []byte)
		want   string
	}{
		{"magic", func(b []byte) { copy(b, "GGUF") }, "not a vkc bundle"},
		{"newer version", func(b []byte) { le.PutUint32(b[8:], 2) }, "version 2, this vkc reads version 1: use a newer vkc"},
		{"version 0", func(b []byte) { le.PutUint32(b[8:], 0) }, "version 0, want 1"},
		{"many sections", func(b []byte) { le.PutUint32(b[12:], 1<<31) }, "sections do not fit"},
		{"no sections", func(b []byte) { le.PutUint32(b[12:], 0) }, "checksum"},
		{"huge size", func(b []byte) { le.PutUint64(b[16:], 1<<63) }, "cut short"},
		{"small size", func(b []byte) { le.PutUint64(b[16:], 70) }, "goes on after its end"},
		{"reserved", func(b []byte) { b[25] = 1 }, "reserved"},
	}
	for _, tt := range tests {
		b := small(t)
		tt.change(b)
		if _, err := Read(b); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestDirectoryFaults(t *testing.T) {
	last := func(s []Section) *Section { return &s[len(s)-1] }
	tests := []struct {
		name   string
		change func(s []Section)
		want   string
	}{
		{"unknown kind", func(s []Section) { last(s).Kind = 99 }, "kind 99, which this vkc does not know"},
		{"kind 0", func(s []Section) { s[0].Kind = 0 }, "kind 0"},
		{"duplicate", func(s []Section) { s[1] = s[0] }, "each once"},
		{"disorder", func(s []Section) { s[0], s[1] = s[1], s[0] }, "begins at"},
		{"index of the program", func(s []Section) { s[2].Index = 1 }, "has index 1"},
		{"index too large", func(s []Section) { s[4].Index = -1 }, "has index"},
		{"overlap", func(s []Section) { s[1].Offset = s[0].Offset }, "section graph begins at"},
		{"hole", func(s []Section) { last(s).Offset += 64 }, "begins at"},
		{"offset wraps", func(s []Section) { last(s).Offset = -64 }, "begins at"},
		{"past the end", func(s []Section) { last(s).Length++ }, "the file at"},
		{"before the end", func(s []Section) { last(s).Length = 0 }, "checksum"},
		{"length wraps", func(s []Section) { last(s).Length = -1 }, "the limit is"},
		{"no sum", func(s []Section) { s[2].SHA256 = [32]byte{} }, "checksum does not match section program"},
		{"sum of weight data", func(s []Section) { s[len(s)-2].SHA256[0] = 1 }, "checksum does not match section weight data"},
	}
	for _, tt := range tests {
		_, err := Read(retabled(t, small(t), tt.change))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestSectionFaults tests faulty files with correct checksums.
func TestSectionFaults(t *testing.T) {
	set := func(k Kind, old, new string) func([]readySection) []readySection {
		return func(list []readySection) []readySection {
			for i, s := range list {
				if s.kind == k {
					if !bytes.Contains(s.content, []byte(old)) {
						t.Fatalf("section %s has no %q", k, old)
					}
					list[i].content = bytes.Replace(s.content, []byte(old), []byte(new), 1)
					return list
				}
			}
			t.Fatalf("no section %s", k)
			return nil
		}
	}
	drop := func(k Kind) func([]readySection) []readySection {
		return func(list []readySection) []readySection {
			i := slices.IndexFunc(list, func(s readySection) bool { return s.kind == k })
			return slices.Delete(list, i, i+1)
		}
	}
	tests := []struct {
		name   string
		change func([]readySection) []readySection
		want   string
	}{
		{"no meta", drop(KindMeta), "no section meta"},
		{"no graph", drop(KindGraph), "no section graph"},
		{"no program", drop(KindProgram), "no section program"},
		{"first shader missing", drop(KindSPIRV), "want spirv 0 here"},
		{"GLSL missing", drop(KindGLSL), "want glsl 0 here"},
		{"shader missing", func(l []readySection) []readySection { return slices.Delete(l, 4, 5) }, "SPIR-V of 1 shaders"},
		{"source missing", func(l []readySection) []readySection { return slices.Delete(l, 6, 7) }, "GLSL of 1 shaders"},
		{"no weight data", drop(KindData), "no weight data"},
		{"no weight index", drop(KindIndex), "no section weight index"},
		{"empty", func([]readySection) []readySection { return nil }, "no section meta"},
		{"not SPIR-V", set(KindSPIRV, "\x03\x02\x23\x07", "\x07\x23\x02\x03"), "not SPIR-V"},
		{"not UTF-8", set(KindMeta, "test", "te\xff"), "UTF-8"},
		{"unknown field", set(KindMeta, "created_by", "created_at"), "unknown field"},
		{"two values", set(KindMeta, "}", "}{}"), "goes on"},
		{"bad program", set(KindProgram, `"shader":1`, `"shader":9`), "no shader 9"},
		{"negative binding", set(KindProgram, `"buffer":3`, `"buffer":-3`), "no buffer -3"},
		{"arena too small", set(KindProgram, `"arena_bytes":8192`, `"arena_bytes":16`), "outside the arena"},
		{"unknown dtype", set(KindProgram, `"f32"`, `"f33"`), `unknown dtype "f33"`},
		{"dtype as number", set(KindProgram, `"f32"`, `1`), "program"},
		{"huge dim", set(KindProgram, `[64,32]`, `[4611686018427387904,32]`), "out of range"},
		{"null program", func(l []readySection) []readySection { l[2].content = []byte("null"); return l }, "SPIR-V of 2 shaders for a program of 0"},
		{"chunk size", set(KindIndex, `"chunk_bytes":1048576`, `"chunk_bytes":0`), "chunks of 0 bytes"},
		{"few checksums", set(KindIndex, `"crc32c":"`, `"crc32c":"AAAA`), "bytes of checksums"},
		{"negative dims", set(KindIndex, `[64,32]`, `[-64,-32]`), "negative"},
		{"other size", set(KindIndex, `[64,32]`, `[65,32]`), "needs 1170"},
		{"overlapping weights", set(KindIndex, `"offset":128`, `"offset":0`), "begins at byte 0 of the weight data, want 128"},
		{"weight past the end", set(KindIndex, `"dtype":"f32","dims":[],"offset":1280,"bytes":4`, `"dtype":"f32","dims":[2],"offset":1280,"bytes":8`), "ends at byte 1288"},
		{"weight left out", set(KindIndex, `,{"name":"only graph","dtype":"f32","dims":[],"offset":1280,"bytes":4}`, ``), "have 1280 bytes"},
		{"weight twice", set(KindIndex, `"only graph"`, `"w"`), "twice"},
		{"weight without a name", set(KindIndex, `"only graph"`, `""`), "no name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(assembled(t, tt.change(sectionsOf(t, small(t)))))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), wayOut) {
				t.Errorf("error %v, want %q and the way out", err, tt.want)
			}
		})
	}
	if _, err := Read(assembled(t, sectionsOf(t, small(t)))); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

// FuzzHead feeds a header and directory, with a checksum that is made to fit.
func FuzzHead(f *testing.F) {
	whole := small(f)
	n := int(headSize(len(sectionsOf(f, whole))))
	f.Add(whole[:n])
	f.Add(whole[:headerSize])
	f.Fuzz(func(t *testing.T, head []byte) {
		b := append(slices.Clone(head), whole[min(len(head), n):]...)
		if len(b) >= headerSize {
			if size := headSize(int(binary.LittleEndian.Uint32(b[12:]) % maxSections)); size <= int64(len(b)) {
				sum := headSum(b[:size])
				copy(b[hashedHead:], sum[:])
			}
		}
		file, err := Read(b)
		if err == nil {
			err = file.Verify()
		}
		if err == nil && !bytes.Equal(b, whole) {
			t.Errorf("a second form of the same file: %x", head)
		}
	})
}

// FuzzSections fuzzes sections with correct checksums.
func FuzzSections(f *testing.F) {
	list := sectionsOf(f, small(f))
	index := len(list) - 1
	f.Add(list[2].content, list[index].content)
	f.Add([]byte("{}"), []byte("{}"))
	f.Fuzz(func(t *testing.T, program, weights []byte) {
		own := slices.Clone(list)
		own[2].content, own[index].content = program, weights
		file, err := Read(assembled(t, own))
		if err != nil {
			return
		}
		for _, name := range file.WeightNames() {
			if d, err := file.Weight(name); err == nil && d.Check() != nil {
				t.Errorf("weight %q: %v", name, d.Check())
			}
		}
		g, err := file.Graph()
		if err != nil {
			t.Fatal(err)
		}
		// What could be read can be written, and reads back the same.
		c := &Contents{Meta: file.Meta(), Graph: g, Program: file.Program(), SPIRV: file.SPIRV(), GLSL: file.GLSL()}
		again, err := Read(encoded(t, c))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(file.Program(), again.Program(), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}
