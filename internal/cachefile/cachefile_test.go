package cachefile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func testDir(t testing.TB) Dir {
	return Dir{
		Path: filepath.Join(t.TempDir(), "cache"), Suffix: ".tst", Magic: [8]byte([]byte("VKCTESTS")),
		Format: 1, MaxPayload: 1 << 16,
		Check: func(p []byte) error {
			if bytes.HasPrefix(p, []byte("unfit")) {
				return errors.New("payload is not fit")
			}
			return nil
		},
	}
}

func put(t testing.TB, d Dir, k Key, payload string) {
	t.Helper()
	if err := d.Put(k, []byte(payload)); err != nil {
		t.Fatal(err)
	}
}

func TestPutGet(t *testing.T) {
	d, k := testDir(t), KeyOf("a")
	if _, ok := d.Get(k); ok {
		t.Error("hit in an absent cache")
	}
	for _, payload := range []string{"first", "", "second"} {
		put(t, d, k, payload)
		if have, ok := d.Get(k); !ok || string(have) != payload {
			t.Errorf("have %q, %v; want %q", have, ok, payload)
		}
	}
	if _, ok := d.Get(KeyOf("b")); ok {
		t.Error("hit for another key")
	}
	if err := d.Put(k, make([]byte, d.MaxPayload+1)); err == nil {
		t.Error("payload over the limit was stored")
	}
	if have, ok := d.Get(k); !ok || string(have) != "second" {
		t.Errorf("after a refused Put: %q, %v", have, ok)
	}
}

func TestKeyOf(t *testing.T) {
	if KeyOf("ab", "c") == KeyOf("a", "bc") || KeyOf("a") == KeyOf("a", "") || KeyOf() == KeyOf("") {
		t.Error("different parts have one key")
	}
}

// TestDamage changes each bit, and cuts at each length. All are misses, and
// the file is gone afterwards.
func TestDamage(t *testing.T) {
	d, k := testDir(t), KeyOf("a")
	put(t, d, k, "payload")
	path := d.path(k)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, content []byte) {
		t.Helper()
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
		if have, ok := d.Get(k); ok {
			t.Errorf("%s: hit with %q", what, have)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: still there", what)
		}
	}
	for bit := range 8 * len(whole) {
		b := bytes.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		check("flipped bit", b)
	}
	for n := range whole {
		check("cut", whole[:n])
	}
	check("longer", append(bytes.Clone(whole), 0))
	check("too large", make([]byte, headerSize+d.MaxPayload+1))
	check("other key", d.encode(KeyOf("b"), []byte("payload")))
	check("not fit", d.encode(k, []byte("unfit")))
	other := d
	other.Format = 2
	check("other format", other.encode(k, []byte("payload")))
	put(t, d, k, "again")
	if _, ok := d.Get(k); !ok {
		t.Error("miss after the damage was repaired")
	}
}

func TestVerify(t *testing.T) {
	d := testDir(t)
	put(t, d, KeyOf("good"), "good")
	put(t, d, KeyOf("bad"), "unfit")
	bad := d.path(KeyOf("bad"))
	stale := filepath.Join(filepath.Dir(bad), ".atomic-X.tmp")
	foreign := filepath.Join(filepath.Dir(bad), "README")
	for _, path := range []string{stale, foreign} {
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-2 * staleTempAfter)
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	good, list, err := d.Verify()
	if err != nil || good.Entries != 1 || good.Bytes != headerSize+4 {
		t.Errorf("good %+v, %v", good, err)
	}
	if len(list) != 1 || list[0].Path != bad || list[0].Err == nil ||
		!strings.Contains(list[0].Err.Error(), "not fit") {
		t.Errorf("bad %+v", list)
	}
	for path, want := range map[string]bool{bad: false, stale: false, foreign: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", path, err, want)
		}
	}
}

func TestClear(t *testing.T) {
	d := testDir(t)
	if s, err := d.Clear(); err != nil || s.Entries != 0 {
		t.Errorf("absent cache: %+v, %v", s, err)
	}
	put(t, d, KeyOf("a"), "1")
	put(t, d, KeyOf("b"), "22")
	if s, err := d.Clear(); err != nil || s != (Stats{2, 2*headerSize + 3}) {
		t.Errorf("cleared %+v, %v", s, err)
	}
	if _, err := os.Stat(d.Path); !os.IsNotExist(err) {
		t.Errorf("directory after Clear: %v", err)
	}
	foreign := filepath.Join(d.Path, "00", "README")
	if err := os.MkdirAll(filepath.Dir(foreign), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreign, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Clear(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a file that the cache did not make: %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	d, k := testDir(t), KeyOf("a")
	payload := strings.Repeat("x", 10000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 30 {
				if err := d.Put(k, []byte(payload)); err != nil {
					t.Error(err)
				}
				if have, ok := d.Get(k); !ok || string(have) != payload {
					t.Errorf("have %d bytes, %v", len(have), ok)
				}
			}
		})
	}
	wg.Wait()
}

func TestRoot(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("HOME", home)
	t.Setenv("LocalAppData", home)
	tests := []struct {
		cache, dir string
		want       string // a suffix
		fails      bool
	}{
		{"", "", "vkc", false},
		{"on", "", "vkc", false},
		{"", filepath.Join(home, "mine"), filepath.Join(home, "mine"), false},
		{"off", filepath.Join(home, "mine"), "", false},
		{"0", "", "", true},
		{"", "off", "", true},
		{"", "../caches", "", true},
	}
	for _, tt := range tests {
		t.Setenv(Env, tt.cache)
		t.Setenv(EnvDir, tt.dir)
		have, err := Root()
		if (err != nil) != tt.fails || !strings.HasSuffix(have, tt.want) || (have == "") != (tt.want == "") {
			t.Errorf("%s=%s %s=%s: %q, %v; want …%q", Env, tt.cache, EnvDir, tt.dir, have, err, tt.want)
		}
	}
}

// TestRootRefusesOpenFolders: caches that others can write are not used.
func TestRootRefusesOpenFolders(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(Env, "")
	t.Setenv(EnvDir, dir)
	if have, err := Root(); err != nil || have != dir {
		t.Fatalf("an own folder: %q, %v", have, err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if have, err := Root(); runtime.GOOS != "windows" && (!isUntrusted(err) || have != "") {
		t.Errorf("a folder open to all: %q, %v, want an *UntrustedError", have, err)
	}
}

func FuzzDecode(f *testing.F) {
	d, k := testDir(f), KeyOf("a")
	f.Add(d.encode(k, []byte("payload")))
	f.Add([]byte("VKCTESTS"))
	f.Fuzz(func(t *testing.T, b []byte) {
		payload, err := d.decode(b, k)
		if err == nil && !bytes.Equal(d.encode(k, payload), b) {
			t.Errorf("accepted %x, which is not how its payload is written", b)
		}
	})
}
