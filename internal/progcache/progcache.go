// Package progcache caches compiled programs on disk, so that compiling a graph again only reads a file.
//
// The cache stores a program as a bundle without weights. The compiler computes its key: a hash of the canonical graph,
// the device's fingerprint, the version of the code generator and its tools, and the options. A key made with
// ir.Graph.Hash does not depend on the names of inputs, outputs and weights. Then a cached program may have another
// graph's names, and the caller must rebind it (see ir.Interface).
package progcache

import (
	"path/filepath"
	"time"

	"github.com/vkc-go/vkc/codegen/bundle"
	"github.com/vkc-go/vkc/internal/cachefile"
)

// Cache is a cache of compiled programs. Several processes may share a directory.
type Cache struct {
	dir cachefile.Dir
	off bool
}

// format changes when bundles stay readable but must be recompiled.
const format = 2

const maxBundle = 1 << 30

// Open returns the cache below cacheDir, the directory of all of vkc's caches. It creates nothing. If cacheDir is
// empty, the cache is always empty.
func Open(cacheDir string) *Cache {
	return &Cache{
		off: cacheDir == "",
		dir: cachefile.Dir{
			Path: filepath.Join(cacheDir, "programs"), Suffix: ".vkpe",
			Magic: [8]byte([]byte("VKCPROGR")), Format: format, MaxPayload: maxBundle,
			Check: func(payload []byte) error { _, err := bundle.Read(payload); return err },
		},
	}
}

// Default returns the cache in the user's cache directory, subject to
// VKC_CACHE_DIR and VKC_CACHE=off (see cachefile.Root).
func Default() (*Cache, error) {
	root, err := cachefile.Root()
	if err != nil {
		return nil, err
	}
	return Open(root), nil
}

// Get returns the program for a key of any length. A damaged or foreign entry is removed and is a miss.
func (c *Cache) Get(key string) (program *bundle.File, ok bool) {
	if c.off {
		return nil, false
	}
	return c.load(cachefile.KeyOf(key))
}

// load returns the program of an entry. It parses the bundle as part of checking the entry, so that a damaged one is
// removed.
func (c *Cache) load(key cachefile.Key) (program *bundle.File, ok bool) {
	dir := c.dir
	dir.Check = func(payload []byte) (err error) {
		program, err = bundle.Read(payload)
		return err
	}
	_, ok = dir.Get(key)
	return program, ok
}

// Put stores a program without its weights under a key. Callers may ignore the error: the program is then recompiled
// next time.
func (c *Cache) Put(key string, contents *bundle.Contents) error {
	if c.off {
		return nil
	}
	light := *contents
	light.Weights = nil
	payload, err := bundle.Encode(&light)
	if err != nil {
		return err
	}
	return c.dir.Put(cachefile.KeyOf(key), payload)
}

// Entry describes a cached program.
type Entry struct {
	Program string // its name
	Target  string // the device it was compiled for
	Kernels int
	Path    string
	Size    int64 // bytes of the file
	ModTime time.Time
}

// List reads and describes all valid entries. It removes damaged ones.
func (c *Cache) List() ([]Entry, error) {
	if c.off {
		return nil, nil
	}
	files, err := c.dir.Entries()
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, e := range files {
		if f, ok := c.load(e.Key); ok {
			p := f.Program()
			list = append(list, Entry{p.Name, p.Target, len(p.Steps), e.Path, e.Size, e.ModTime})
		}
	}
	return list, nil
}

// Stats counts the entries and their bytes, without reading them.
func (c *Cache) Stats() (cachefile.Stats, error) {
	if c.off {
		return cachefile.Stats{}, nil
	}
	return c.dir.Stats()
}

// Verify checks every entry and removes the damaged ones. It returns the removed entries with Err set, and the totals
// of the good ones.
func (c *Cache) Verify() (good cachefile.Stats, bad []cachefile.Entry, err error) {
	if c.off {
		return good, nil, nil
	}
	return c.dir.Verify()
}

// Clear removes all entries and returns their totals.
func (c *Cache) Clear() (cachefile.Stats, error) {
	if c.off {
		return cachefile.Stats{}, nil
	}
	return c.dir.Clear()
}
