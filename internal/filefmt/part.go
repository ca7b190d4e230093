package filefmt

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
)

// PartError reports a file with only one part of a model.
type PartError struct {
	Source
	Part, Of uint64 // counted from 1
	Remedy   string // what to do
}

func (e *PartError) Error() string {
	where := cmp.Or(e.Path, "the data")
	return fmt.Sprintf("%s: %s: this is part %d of %d of a model: %s", e.Format, where, e.Part, e.Of, e.Remedy)
}

// partName is the end of the names of parts: model-00001-of-00003.gguf.
var partName = regexp.MustCompile(`-(\d+)-of-(\d+)\.[^.]+$`)

// PartOf returns the part number and the number of parts, counted from 1, in a file's name. If it is not a part, of is
// 0 or 1.
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
