package filefmt

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// MaxParts limits the number of files of a model, each of which stays open.
const MaxParts = 4096

// PartError reports a file with only one part of a model, if the other parts are not at hand.
type PartError struct {
	Source
	Part, Of uint64 // counted from 1
	Remedy   string // what to do
	Err      error  // why another part could not be opened; may be nil
}

// Unwrap returns the reason why another part could not be opened.
func (e *PartError) Unwrap() error { return e.Err }

func (e *PartError) Error() string {
	where := cmp.Or(e.Path, "the data")
	return fmt.Sprintf("%s: %s: this is part %d of %d of a model: %s", e.Format, where, e.Part, e.Of, e.Remedy)
}

// partName is the end of the names of parts: model-00001-of-00003.gguf.
var partName = regexp.MustCompile(`-(\d+)-of-(\d+)(\.[^.]+)$`)

// PartOf returns the part number, counted from 1, and the number of parts that the name of a file states, such as
// "-00002-of-00003". If the file is not a part of a model, of is 0 or 1.
func PartOf(path string) (part, of uint64) {
	m := partName.FindStringSubmatch(filepath.Base(path))
	if m == nil {
		return 0, 0
	}
	part, err1 := strconv.ParseUint(m[1], 10, 32)
	of, err2 := strconv.ParseUint(m[2], 10, 32)
	if err1 != nil || err2 != nil || part < 1 || part > of {
		return 0, 0
	}
	return part, of
}

// SiblingPart returns the path of another part of the model that path is a part of. It keeps the number of digits.
func SiblingPart(path string, part uint64) string {
	dir, name := filepath.Split(path)
	m := partName.FindStringSubmatchIndex(name)
	if m == nil {
		return path
	}
	return dir + name[:m[2]] + fmt.Sprintf("%0*d", m[3]-m[2], part) + name[m[3]:]
}

// PartPath returns the path of part number part of a model at path: m-00001-of-00003.gguf for m.gguf. If path is the
// name of a part, the numbers are replaced.
func PartPath(path string, part, of int) string {
	dir, name := filepath.Split(path)
	ext := filepath.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if _, n := PartOf(name); n > 0 {
		stem = name[:partName.FindStringIndex(name)[0]]
	}
	return fmt.Sprintf("%s%s-%05d-of-%05d%s", dir, stem, part, of, ext)
}
