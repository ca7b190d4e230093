package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/vkc-go/vkc/internal/filefmt"
	"github.com/vkc-go/vkc/internal/inputfile"
	"github.com/vkc-go/vkc/ir"
)

// Index is a model in several safetensors files, the shards. Its index file (model.safetensors.index.json) maps the
// name of each tensor to a shard.
type Index struct {
	src    filefmt.Source
	shards map[string]*File  // by file name
	places map[string]string // tensor name to file name
	names  []string          // sorted
}

// OpenIndex reads the index at path and opens every shard. Shards are in the folder of the index or below. It is an
// error if a shard lacks a tensor that the index places there.
func OpenIndex(path string) (*Index, error) {
	src := filefmt.Source{Format: "safetensors", Path: path}
	places, err := readIndex(src)
	if err != nil {
		return nil, err
	}
	x := &Index{src: src, shards: make(map[string]*File), places: places, names: slices.Sorted(maps.Keys(places))}
	if err := x.openShards(); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// readIndex reads the map from tensor names to file names.
func readIndex(src filefmt.Source) (map[string]string, error) {
	text, err := readBounded(src)
	if err != nil {
		return nil, err
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
		Format    any               `json:"format"` // present in other JSON files, such as a graph
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, src.Errorf(jsonErrorPos(err), "the index is not valid JSON: %v", err)
	}
	if len(index.WeightMap) == 0 && index.Format != nil {
		return nil, src.Errorf(0, "the file's format is %q, but it has no weights: want the index of safetensors "+
			`files, with "weight_map"`, fmt.Sprint(index.Format))
	}
	if len(index.WeightMap) == 0 {
		return nil, src.Errorf(0, `the index has no "weight_map" from tensor names to file names`)
	}
	return index.WeightMap, nil
}

// readBounded reads the index with a size limit, because the file is untrusted.
func readBounded(src filefmt.Source) ([]byte, error) {
	text, err := inputfile.ReadAtMost(src.Path, maxHeaderBytes)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	if len(text) > maxHeaderBytes {
		return nil, src.Errorf(maxHeaderBytes, "the index is longer than %d bytes", maxHeaderBytes)
	}
	return text, nil
}

// jsonErrorPos returns the byte offset of an error of encoding/json.
func jsonErrorPos(err error) int64 {
	var syntax *json.SyntaxError
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return syntax.Offset
	case errors.As(err, &mismatch):
		return mismatch.Offset
	}
	return 0
}

// openShards opens each shard once, and checks that each tensor is in its shard.
func (x *Index) openShards() error {
	for _, name := range x.names {
		file := x.places[name]
		if x.shards[file] == nil {
			if !filepath.IsLocal(file) {
				return x.src.Errorf(0, "tensor %q is in %q: want a file in the folder of the index", name, file)
			}
			shard, err := OpenPart(filepath.Join(filepath.Dir(x.src.Path), file))
			if err != nil {
				return fmt.Errorf("safetensors: %s: %w", x.src.Path, err)
			}
			x.shards[file] = shard
		}
		if !x.shards[file].HasWeight(name) {
			return x.src.Errorf(0, "tensor %q should be in %s, which does not have it", name, file)
		}
	}
	return nil
}

// Names returns the names of all tensors, sorted.
func (x *Index) Names() []string { return slices.Clone(x.names) }

// HasWeight reports whether there is a tensor of that name.
func (x *Index) HasWeight(name string) bool { _, ok := x.places[name]; return ok }

// Weight returns the tensor of that name from its shard. Its bytes alias the file, so they are read-only and valid
// until Close. It implements ir.WeightSource.
func (x *Index) Weight(name string) (*ir.Data, error) {
	file, ok := x.places[name]
	if !ok {
		return nil, x.src.Unknown("tensor", name, x.names)
	}
	return x.shards[file].Weight(name)
}

// Close closes all shards. Tensors returned by Weight must not be used afterwards.
func (x *Index) Close() error {
	var errs []error
	for _, shard := range x.shards {
		errs = append(errs, shard.Close())
	}
	return errors.Join(errs...)
}
