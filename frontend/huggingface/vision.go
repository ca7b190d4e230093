package huggingface

import (
	"errors"

	"github.com/vkc-go/vkc/frontend/gguf"
)

// HasVision reports whether the model of a folder has a vision tower.
func HasVision(folder string) (bool, error) { return false, nil }

// OpenVision opens the vision tower of a model's folder as an mmproj file.
func OpenVision(folder string) (*gguf.File, error) {
	return nil, errors.New("the folder has no vision tower")
}
