package optest_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
)

// TestPairs runs every case over i64 as on a device without 64-bit integers, whose kernels compute in pairs of words.
func TestPairs(t *testing.T) {
	dev := openDevice(t)
	caps := dev.Caps()
	caps.Features.Int64 = false
	runAs(t, dev, caps, regexp.MustCompile(`i64`), 200, func(p *kernel.Program) {
		for _, s := range p.Shaders {
			if strings.Contains(strings.Join(s.Needs, " "), "int64") {
				t.Errorf("%s needs 64-bit integers", s.Name)
			}
		}
	})
}
