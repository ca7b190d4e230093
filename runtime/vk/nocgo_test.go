//go:build !cgo

package vk

import (
	"errors"
	"strings"
	"testing"
)

func TestOpenWithoutCgo(t *testing.T) {
	inst, err := Open()
	if inst != nil || !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "CGO_ENABLED=1") ||
		!strings.Contains(err.Error(), "CPU device") {
		t.Errorf("Open returns %v, %v", inst, err)
	}
}
