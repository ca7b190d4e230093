// Package disabled reads the environment variable that turns off features of devices.
package disabled

import (
	"os"
	"slices"
	"strings"
)

// Env names the environment variable: a comma-separated list of features.
const Env = "VKC_DISABLE"

// AVX512 is the feature of processors with AVX-512. The features of Vulkan devices are names of
// [github.com/vkc-go/vkc/codegen/device.Caps.Without], which accepts this one too.
const AVX512 = "avx512"

// List returns the features in the variable.
func List() []string {
	return strings.FieldsFunc(os.Getenv(Env), func(r rune) bool { return r == ',' || r == ' ' })
}

// Has reports whether the variable turns a feature off.
func Has(feature string) bool { return slices.Contains(List(), feature) }
