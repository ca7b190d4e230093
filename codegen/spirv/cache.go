package spirv

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vkc-go/vkc/internal/atomicfile"
)

// Cache is the directory of compiled shaders. Any number of processes may use
// one at the same time: entries are written atomically and checked whenever
// they are read, and one that is damaged or foreign is never used.
type Cache struct{ dir string }

const (
	cacheSubdir    = "spirv"
	entrySuffix    = ".spve"
	staleTempAfter = time.Hour
)

// OpenCache returns the cache under cacheDir, the directory given to Compile
// as Options.CacheDir. It creates nothing; a directory that does not exist is
// an empty cache.
func OpenCache(cacheDir string) Cache {
	return Cache{filepath.Join(cacheDir, cacheSubdir)}
}

// path spreads entries over 256 directories, for the sake of file systems and
// people that dislike large ones.
func (c Cache) path(k Key) string {
	name := k.String()
	return filepath.Join(c.dir, name[:2], name+entrySuffix)
}

// get returns the module for a key. What is damaged, foreign or not SPIR-V is
// removed and is a miss.
func (c Cache) get(k Key) ([]byte, bool) {
	module, ok := loadEntry(c.path(k), k)
	if ok && CheckModule(module) != nil {
		os.Remove(c.path(k))
		return nil, false
	}
	return module, ok
}

func (c Cache) put(k Key, module []byte) error { return storeEntry(c.path(k), k, module) }

// Entry describes a file of the cache.
type Entry struct {
	Key     Key
	Path    string
	Size    int64 // bytes of the file; the module has 88 less
	ModTime time.Time
	// Err says what is wrong with the entry. Only Verify fills it in.
	Err error
}

// Entries lists the cache by key, without reading the files. Files that are
// not named as entries are left out.
func (c Cache) Entries() ([]Entry, error) {
	var entries []Entry
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreAbsent(err)
		}
		key, ok := entryKey(d)
		if !ok {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return ignoreAbsent(err) // another process removed it just now
		}
		entries = append(entries, Entry{Key: key, Path: path, Size: info.Size(), ModTime: info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list SPIR-V cache: %w", err)
	}
	return entries, nil
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// entryKey returns the key in the name of an entry's file.
func entryKey(d fs.DirEntry) (key Key, ok bool) {
	name, isEntry := strings.CutSuffix(d.Name(), entrySuffix)
	if !isEntry || !d.Type().IsRegular() || len(name) != hex.EncodedLen(len(key)) {
		return key, false
	}
	_, err := hex.Decode(key[:], []byte(name))
	return key, err == nil
}

// CacheStats sums up a cache.
type CacheStats struct {
	Entries int
	Bytes   int64
}

// Stats counts the entries and their bytes.
func (c Cache) Stats() (CacheStats, error) {
	entries, err := c.Entries()
	return sum(entries), err
}

func sum(entries []Entry) CacheStats {
	s := CacheStats{Entries: len(entries)}
	for _, e := range entries {
		s.Bytes += e.Size
	}
	return s
}

// Verify reads and checks every entry, removes those that are damaged, and
// returns them with Err set, beside the sum of the good ones. Temporary files
// left by killed processes are removed too.
func (c Cache) Verify() (good CacheStats, bad []Entry, err error) {
	entries, err := c.Entries()
	if err != nil {
		return good, nil, err
	}
	var sound []Entry
	for _, e := range entries {
		if e.Err = verifyEntry(e); e.Err == nil {
			sound = append(sound, e)
			continue
		}
		if errors.Is(e.Err, fs.ErrNotExist) {
			continue // removed by another process meanwhile
		}
		bad = append(bad, e)
		if err := os.Remove(e.Path); ignoreAbsent(err) != nil {
			return sum(sound), bad, fmt.Errorf("remove damaged cache entry: %w", err)
		}
	}
	return sum(sound), bad, c.removeTemps()
}

func verifyEntry(e Entry) error {
	module, err := readEntry(e.Path, e.Key)
	if err != nil {
		return err
	}
	return CheckModule(module)
}

// Clear removes all entries, and says what it removed. Files that the cache
// did not make stay.
func (c Cache) Clear() (CacheStats, error) {
	entries, err := c.Entries()
	if err != nil {
		return CacheStats{}, err
	}
	for i, e := range entries {
		if err := os.Remove(e.Path); ignoreAbsent(err) != nil {
			return sum(entries[:i]), fmt.Errorf("clear SPIR-V cache: %w", err)
		}
	}
	if err := c.removeTemps(); err != nil {
		return sum(entries), err
	}
	c.removeEmptyDirs()
	return sum(entries), nil
}

// subdirs lists the directories that may hold entries.
func (c Cache) subdirs() []string {
	dirs, _ := filepath.Glob(filepath.Join(c.dir, "[0-9a-f][0-9a-f]"))
	return dirs
}

func (c Cache) removeTemps() error {
	for _, dir := range c.subdirs() {
		if err := atomicfile.RemoveStale(dir, staleTempAfter); ignoreAbsent(err) != nil {
			return fmt.Errorf("remove stale temporary files: %w", err)
		}
	}
	return nil
}

// removeEmptyDirs tidies up after Clear. A directory that is not empty, or in
// use by another process, stays.
func (c Cache) removeEmptyDirs() {
	for _, dir := range append(c.subdirs(), c.dir) {
		os.Remove(dir)
	}
}
