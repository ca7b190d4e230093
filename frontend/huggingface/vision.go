package huggingface

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/frontend/gguf"
	"github.com/vkc-go/vkc/frontend/vision"
)

// HasVision reports whether the model of a folder has a vision tower.
func HasVision(folder string) (bool, error) {
	config, err := read(folder, "config.json", maxConfig)
	return config != nil && vision.HasFolder(config), err
}

// OpenVision opens the vision tower of a model's folder as an mmproj file. Tensors are valid until Close.
func OpenVision(folder string) (*gguf.File, error) {
	f, err := openVision(folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return f, nil
}

// openVision opens the vision tower of a folder. Its errors do not name the folder; OpenVision adds the name.
func openVision(folder string) (_ *gguf.File, err error) {
	config, stored, err := openStored(folder)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stored.file.Close())
		}
	}()
	preprocessor, err := read(folder, "preprocessor_config.json", maxConfig)
	if err != nil {
		return nil, err
	}
	translation, err := vision.FromFolder(config, preprocessor, stored.types())
	if err != nil {
		return nil, err
	}
	made, err := newMade(stored, translation, false)
	if err != nil {
		return nil, err
	}
	return gguf.Of(translation.Metadata, made, stored.file.Close)
}
