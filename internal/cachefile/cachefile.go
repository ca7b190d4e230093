// Package cachefile is a directory of content-addressed, checksummed files.
//
// Processes may share a directory: entries are written atomically and checked whenever they are read. An entry that is
// damaged, truncated, or from another program is a miss, and is removed. An entry that another user could have written
// is a miss too (see [Trusted]).
package cachefile

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vkc-go/vkc/internal/atomicfile"
)

const staleTempAfter = time.Hour

// Dir is a cache directory for one kind of payload.
type Dir struct {
	Path   string  // need not exist: then it is an empty cache
	Suffix string  // of entry files, with its dot
	Magic  [8]byte // first bytes of entry files
	Format uint32  // changes when payloads of before can no longer be used
	// MaxPayload is the maximum size in bytes of a stored payload.
	MaxPayload int64
	// Check, if not nil, validates a payload after its checksum.
	Check func(payload []byte) error
}

// path spreads entries over 256 directories, because very large directories are slow.
func (d Dir) path(k Key) string {
	name := k.String()
	return filepath.Join(d.Path, name[:2], name+d.Suffix)
}

// Get returns the payload for a key. An invalid entry is removed and is a miss. An entry that another user could have
// written is a miss too, and stays.
func (d Dir) Get(k Key) (payload []byte, ok bool) {
	payload, err := d.read(d.path(k), k)
	if err == nil {
		return payload, true
	}
	if !errors.Is(err, fs.ErrNotExist) && !isUntrusted(err) {
		os.Remove(d.path(k)) // best effort: the next Put replaces it
	}
	return nil, false
}

func isUntrusted(err error) bool {
	untrusted := (*UntrustedError)(nil)
	return errors.As(err, &untrusted)
}

// Put stores a payload under a key, and makes the directory if needed. If another user can write to the directory, the
// error is an *UntrustedError.
func (d Dir) Put(k Key, payload []byte) error {
	if int64(len(payload)) > d.MaxPayload {
		return fmt.Errorf("cache entry of %d bytes is over the limit of %d", len(payload), d.MaxPayload)
	}
	return WriteFile(d.path(k), d.encode(k, payload))
}

// Entry describes a file of the cache.
type Entry struct {
	Key     Key
	Path    string
	Size    int64 // bytes of the file
	ModTime time.Time
	// Err is the defect of the entry. Only Verify sets it.
	Err error
}

// Entries lists the cache by key, without reading the files. It skips files that are not named like entries.
func (d Dir) Entries() ([]Entry, error) {
	var entries []Entry
	err := filepath.WalkDir(d.Path, func(path string, file fs.DirEntry, err error) error {
		if err != nil {
			return ignoreAbsent(err)
		}
		key, ok := d.entryKey(file)
		if !ok || path != d.path(key) {
			return nil
		}
		info, err := file.Info()
		if err != nil {
			return ignoreAbsent(err) // another process removed it just now
		}
		entries = append(entries, Entry{Key: key, Path: path, Size: info.Size(), ModTime: info.ModTime()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list cache %s: %w", d.Path, err)
	}
	return entries, nil
}

// ignoreAbsent returns nil for the error of a file that does not exist.
func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// entryKey returns the key in the name of an entry's file.
func (d Dir) entryKey(file fs.DirEntry) (key Key, ok bool) {
	name, isEntry := strings.CutSuffix(file.Name(), d.Suffix)
	if !isEntry || !file.Type().IsRegular() || len(name) != hex.EncodedLen(len(key)) {
		return key, false
	}
	_, err := hex.Decode(key[:], []byte(name))
	return key, err == nil
}

// Stats sums up a cache.
type Stats struct {
	Entries int
	Bytes   int64
}

// Stats counts the entries and their bytes, without reading them.
func (d Dir) Stats() (Stats, error) {
	entries, err := d.Entries()
	return Sum(entries), err
}

// Sum counts entries and their bytes.
func Sum(entries []Entry) Stats {
	s := Stats{Entries: len(entries)}
	for _, e := range entries {
		s.Bytes += e.Size
	}
	return s
}

// Verify reads and checks every entry, and removes the damaged ones. It returns the removed entries with Err set, and
// the totals of the good ones. It also removes temporary files that killed processes left.
func (d Dir) Verify() (good Stats, bad []Entry, err error) {
	entries, err := d.Entries()
	if err != nil {
		return good, nil, err
	}
	var sound []Entry
	for _, e := range entries {
		_, e.Err = d.read(e.Path, e.Key)
		switch {
		case e.Err == nil:
			sound = append(sound, e)
		case errors.Is(e.Err, fs.ErrNotExist): // removed by another process meanwhile
		case isUntrusted(e.Err):
			return Sum(sound), bad, e.Err
		default:
			bad = append(bad, e)
			if err := os.Remove(e.Path); ignoreAbsent(err) != nil {
				return Sum(sound), bad, fmt.Errorf("remove damaged cache entry: %w", err)
			}
		}
	}
	return Sum(sound), bad, d.removeTemps()
}

// Clear removes all entries and returns their totals. It keeps files that the cache did not create.
func (d Dir) Clear() (Stats, error) {
	entries, err := d.Entries()
	if err != nil {
		return Stats{}, err
	}
	for i, e := range entries {
		if err := os.Remove(e.Path); ignoreAbsent(err) != nil {
			return Sum(entries[:i]), fmt.Errorf("clear cache: %w", err)
		}
	}
	if err := d.removeTemps(); err != nil {
		return Sum(entries), err
	}
	d.removeEmptyDirs()
	return Sum(entries), nil
}

// subdirs lists the directories for entries.
func (d Dir) subdirs() []string {
	files, _ := os.ReadDir(d.Path)
	var dirs []string
	for _, f := range files {
		if b, err := hex.DecodeString(f.Name()); err == nil && len(b) == 1 && f.IsDir() {
			dirs = append(dirs, filepath.Join(d.Path, f.Name()))
		}
	}
	return dirs
}

// removeTemps removes old temporary files.
func (d Dir) removeTemps() error {
	for _, dir := range d.subdirs() {
		if err := atomicfile.RemoveStale(dir, staleTempAfter); ignoreAbsent(err) != nil {
			return fmt.Errorf("remove stale temporary files: %w", err)
		}
	}
	return nil
}

// removeEmptyDirs removes empty directories after Clear. Directories that are not empty, or in use by another process,
// stay.
func (d Dir) removeEmptyDirs() {
	for _, dir := range append(d.subdirs(), d.Path) {
		os.Remove(dir)
	}
}

// EnvDir names the environment variable that overrides the directory of all caches. Env names the one that turns them
// off with the value "off".
const (
	EnvDir = "VKC_CACHE_DIR"
	Env    = "VKC_CACHE"
)

// Root returns the directory with the folders of all vkc's caches: $VKC_CACHE_DIR, or vkc in the user's cache
// directory. It returns "" if VKC_CACHE=off turns caches off. It returns an error if the directory is relative or
// writable by others.
func Root() (string, error) {
	switch v := os.Getenv(Env); v {
	case "", "on":
	case "off":
		return "", nil
	default:
		return "", fmt.Errorf("%s=%s: want off, or on", Env, v)
	}
	dir := os.Getenv(EnvDir)
	switch {
	case dir == "":
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache directory (%w): set $%s to one, or %s=off", err, EnvDir, Env)
		}
		dir = filepath.Join(user, "vkc")
	case !filepath.IsAbs(dir):
		return "", fmt.Errorf("%s=%s depends on the current directory: name it from the root folder on; "+
			"%s=off turns caches off", EnvDir, dir, Env)
	}
	if err := Trusted(dir); err != nil {
		return "", fmt.Errorf("no caches: %w", err)
	}
	return filepath.Clean(dir), nil
}

// ReadFile returns the content of a file of a cache, of at most max bytes. If another user could have written the file,
// the error is an *UntrustedError.
func ReadFile(path string, max int64) (content []byte, err error) {
	err = atomicfile.Retry(func() error {
		content, err = readFile(path, max)
		return err
	})
	return content, err
}

// readFile reads a trusted file of at most max bytes.
func readFile(path string, max int64) ([]byte, error) {
	if err := Trusted(path); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > max {
		return nil, fmt.Errorf("%s: larger than it may be (%d bytes)", path, max)
	}
	return b, nil
}

// WriteFile replaces a file of a cache atomically, and makes its directory if needed. Only the user can read it. If
// others can write to the directory, the error is an *UntrustedError.
func WriteFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	if err := Trusted(dir); err != nil { // before writing anything there
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, content, 0o600)
}

// PipelineDir returns the directory of the drivers' pipeline caches below root, or "" if root is empty.
func PipelineDir(root string) string {
	if root == "" {
		return ""
	}
	return filepath.Join(root, "pipelines")
}

// Pipelines returns the drivers' pipeline caches in a directory, such as PipelineDir. A device and driver has one
// entry.
func Pipelines(dir string) Dir {
	return Dir{Path: dir, Suffix: ".vkpc", Magic: [8]byte([]byte("VKCPIPES")), Format: 1, MaxPayload: 512 << 20}
}
