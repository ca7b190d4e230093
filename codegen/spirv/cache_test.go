package spirv

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/internal/atomicfile"
)

var testKey = newKeyHash("test").key()

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// put stores a module and returns the path of its entry.
func put(t *testing.T, c Cache, k Key, module []byte) string {
	t.Helper()
	if err := c.put(k, module); err != nil {
		t.Fatal(err)
	}
	return c.path(k)
}

func TestCacheRoundTrip(t *testing.T) {
	c := OpenCache(t.TempDir())
	if _, ok := c.get(testKey); ok {
		t.Error("hit in an empty cache")
	}
	want := tinyModule(1)
	put(t, c, testKey, want)
	if got, ok := c.get(testKey); !ok || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v; want %x", got, ok, want)
	}
	replaced := tinyModule(2)
	put(t, c, testKey, replaced)
	if got, ok := c.get(testKey); !ok || !bytes.Equal(got, replaced) {
		t.Errorf("after a second put: %x, %v", got, ok)
	}
}

// damages calls test with every kind of damage to a good entry: each bit
// flipped, each truncation, and some additions.
func damages(good []byte, test func(what string, offset int, bad []byte)) {
	for i := range good {
		for bit := range 8 {
			bad := slices.Clone(good)
			bad[i] ^= 1 << bit
			test("bit flipped at", i, bad)
		}
		test("truncated to", i, good[:i:i])
	}
	for _, tail := range []string{"\x00", "\x00\x00\x00\x00", string(good)} {
		test("appended", len(tail), append(slices.Clone(good), tail...))
	}
}

func TestDamagedEntryIsRefused(t *testing.T) {
	good := encodeEntry(testKey, tinyModule(1))
	if _, err := decodeEntry(good, testKey); err != nil {
		t.Fatal(err)
	}
	damages(good, func(what string, n int, bad []byte) {
		if _, err := decodeEntry(bad, testKey); err == nil {
			t.Errorf("%s %d: accepted", what, n)
		}
	})
}

// TestDamagedFileIsMissAndRemoved does the same through the file system.
func TestDamagedFileIsMissAndRemoved(t *testing.T) {
	c := OpenCache(t.TempDir())
	path := put(t, c, testKey, tinyModule(1))
	damages(encodeEntry(testKey, tinyModule(1)), func(what string, n int, bad []byte) {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.get(testKey); ok {
			t.Errorf("%s %d: hit", what, n)
		}
		if exists(path) {
			t.Errorf("%s %d: not removed", what, n)
		}
	})
}

func TestForeignEntryIsMiss(t *testing.T) {
	other := newKeyHash("other").key()
	futureFormat := encodeEntry(testKey, tinyModule(1))
	binary.LittleEndian.PutUint32(futureFormat[8:], cacheFormat+1)
	tests := map[string][]byte{
		"entry of another key": encodeEntry(other, tinyModule(1)),
		"later format":         futureFormat,
		"bare module":          tinyModule(1),
		"sound, not SPIR-V":    encodeEntry(testKey, []byte("text")),
		"empty":                {},
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			c := OpenCache(t.TempDir())
			path := put(t, c, testKey, tinyModule(1))
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, ok := c.get(testKey); ok || exists(path) {
				t.Errorf("hit %v, file left %v; want a miss and no file", ok, exists(path))
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		c := OpenCache(t.TempDir())
		if err := os.MkdirAll(filepath.Join(c.path(testKey), "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, ok := c.get(testKey); ok {
			t.Error("hit on a directory")
		}
	})
}

// keys returns n different keys.
func keys(n int) []Key {
	var ks []Key
	for i := range n {
		ks = append(ks, newKeyHash(source(i)).key())
	}
	return ks
}

// staleTemp leaves a temporary file as a process does that is killed.
func staleTemp(t *testing.T, dir string) string {
	t.Helper()
	f, err := atomicfile.Create(filepath.Join(dir, "x"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	old := time.Now().Add(-2 * staleTempAfter)
	if err := os.Chtimes(f.Name(), old, old); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

func TestVerify(t *testing.T) {
	c := OpenCache(t.TempDir())
	ks := keys(3)
	for _, k := range ks {
		put(t, c, k, tinyModule(1))
	}
	size := int64(headerSize + len(tinyModule(1)))
	good, bad, err := c.Verify()
	if err != nil || bad != nil || good != (CacheStats{3, 3 * size}) {
		t.Fatalf("sound cache: %v, bad %v, %v", good, bad, err)
	}

	if err := os.Truncate(c.path(ks[1]), size-1); err != nil {
		t.Fatal(err)
	}
	stale := staleTemp(t, filepath.Dir(c.path(ks[0])))

	good, bad, err = c.Verify()
	if err != nil || good != (CacheStats{2, 2 * size}) {
		t.Errorf("good %v, %v; want 2 entries", good, err)
	}
	if len(bad) != 1 || bad[0].Key != ks[1] || bad[0].Err == nil {
		t.Errorf("bad %v, want the truncated entry with its error", bad)
	}
	if exists(c.path(ks[1])) || exists(stale) {
		t.Error("the damaged entry or the stale temporary file is still there")
	}
	if _, bad, _ := c.Verify(); bad != nil {
		t.Errorf("second Verify: %v", bad)
	}
}

func TestClearKeepsForeignFiles(t *testing.T) {
	dir := t.TempDir()
	c := OpenCache(dir)
	ks := keys(2)
	for _, k := range ks {
		put(t, c, k, tinyModule(1))
	}
	foreign := []string{
		filepath.Join(dir, "notes.txt"),
		filepath.Join(filepath.Dir(c.path(ks[0])), "notes.txt"),
		filepath.Join(c.dir, strings.Repeat("z", 64)+entrySuffix),
	}
	for _, path := range foreign {
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stale := staleTemp(t, filepath.Dir(c.path(ks[1])))
	removed, err := c.Clear()
	if err != nil || removed.Entries != 2 {
		t.Errorf("removed %v, %v; want 2 entries", removed, err)
	}
	for _, path := range foreign {
		if !exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	if s, err := c.Stats(); err != nil || s != (CacheStats{}) {
		t.Errorf("after Clear: %v, %v", s, err)
	}
	if exists(stale) || exists(filepath.Dir(c.path(ks[1]))) {
		t.Error("a stale temporary file or an empty directory stayed")
	}
}

func TestAbsentCacheIsEmpty(t *testing.T) {
	c := OpenCache(filepath.Join(t.TempDir(), "no"))
	entries, err := c.Entries()
	if entries != nil || err != nil {
		t.Errorf("Entries: %v, %v", entries, err)
	}
	if _, bad, err := c.Verify(); bad != nil || err != nil {
		t.Errorf("Verify: %v, %v", bad, err)
	}
	if _, err := c.Clear(); err != nil {
		t.Errorf("Clear: %v", err)
	}
	if exists(c.dir) {
		t.Error("looking created the directory")
	}
}

func TestEntriesMatchesFiles(t *testing.T) {
	c := OpenCache(t.TempDir())
	ks := keys(5)
	for _, k := range ks {
		put(t, c, k, tinyModule(1))
	}
	entries, err := c.Entries()
	if err != nil || len(entries) != len(ks) {
		t.Fatalf("%d entries, %v; want %d", len(entries), err, len(ks))
	}
	for _, e := range entries {
		info, err := os.Stat(e.Path)
		if err != nil || info.Size() != e.Size || !slices.Contains(ks, e.Key) || e.Path != c.path(e.Key) {
			t.Errorf("entry %+v does not fit its file: %v", e, err)
		}
	}
	if !slices.IsSortedFunc(entries, func(a, b Entry) int { return bytes.Compare(a.Key[:], b.Key[:]) }) {
		t.Error("not sorted by key")
	}
}

func TestKeyHashSeparatesParts(t *testing.T) {
	hash := func(parts ...string) Key {
		h := newKeyHash("x")
		for _, p := range parts {
			h.add(p)
		}
		return h.key()
	}
	seen := map[Key][]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"c", "ab"}} {
		if other, ok := seen[hash(parts...)]; ok {
			t.Errorf("%q and %q have one key", parts, other)
		}
		seen[hash(parts...)] = parts
	}
}

// FuzzDecodeEntry: the only bytes that pass for an entry are those that
// encodeEntry makes of the payload.
func FuzzDecodeEntry(f *testing.F) {
	good := encodeEntry(testKey, tinyModule(1))
	f.Add(good)
	f.Add(good[:headerSize])
	f.Add(encodeEntry(testKey, nil))
	f.Add([]byte(entryMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		payload, err := decodeEntry(b, testKey)
		if err == nil && !bytes.Equal(encodeEntry(testKey, payload), b) {
			t.Errorf("accepted a file that is no entry: %x", b)
		}
	})
}

func TestReadEntryErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := readEntry(filepath.Join(dir, "no"), testKey); !os.IsNotExist(err) {
		t.Errorf("absent: %v", err)
	}
	huge := filepath.Join(dir, "huge") // sparse
	if err := os.WriteFile(huge, nil, fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, headerSize+maxPayload+1); err != nil {
		t.Fatal(err)
	}
	if _, err := readEntry(huge, testKey); err == nil || !strings.Contains(err.Error(), "larger than any entry") {
		t.Errorf("huge: %v", err)
	}
}
