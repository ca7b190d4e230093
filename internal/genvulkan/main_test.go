package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGenerate checks that the output has the names in use, what they need, and nothing else.
func TestGenerate(t *testing.T) {
	const header = `
#define VK_HEADER_VERSION 7
#define VK_SIZE_A 4U
#define VK_SIZE_B 8U
typedef uint32_t VkFlags;
VK_DEFINE_HANDLE(VkDevice)
VK_DEFINE_NON_DISPATCHABLE_HANDLE(VkImage)

typedef enum VkKind {
    VK_KIND_A = 0,
    VK_KIND_B = 1,
    VK_KIND_C = 2,
    VK_KIND_B_OLD = VK_KIND_B,
    VK_KIND_MAX_ENUM = 0x7FFFFFFF
} VkKind;
typedef struct VkHidden {
    VkImage    image;
} VkHidden;

typedef struct VkPart {
    VkFlags    flags;
    char       name[VK_SIZE_A];
} VkPart;

typedef struct VkInfo {
    VkPart             part;
    const VkHidden*    hidden;
} VkInfo;

typedef void (VKAPI_PTR *PFN_vkCall)(VkDevice device, const VkInfo* info);
typedef void (VKAPI_PTR *PFN_vkOther)(VkImage image);
`
	const sources = `LOAD(vkCall) VkInfo info; int kind = VK_KIND_B_OLD; int none = VK_OF_ANOTHER_LIBRARY;`
	const want = `VK_DEFINE_HANDLE(VkDevice)

typedef uint32_t VkFlags;

#define VK_SIZE_A 4U

typedef struct VkPart {
    VkFlags    flags;
    char       name[VK_SIZE_A];
} VkPart;

typedef struct VkHidden VkHidden;

typedef struct VkInfo {
    VkPart             part;
    const VkHidden*    hidden;
} VkInfo;

typedef void (VKAPI_PTR *PFN_vkCall)(VkDevice device, const VkInfo* info);

typedef enum VkKind {
    VK_KIND_B = 1,
    VK_KIND_B_OLD = VK_KIND_B,
    VK_KIND_MAX_ENUM = 0x7FFFFFFF
} VkKind;

#endif
`
	text, err := generate(header, sources)
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(text, "#define VK_HEADER_VERSION 7\n\n")
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := generate("#define VK_SIZE_A 4U", sources); err == nil {
		t.Error("a header without a version was accepted")
	}
}

// TestCurrent checks that the generated header has no declaration that package runtime/vk stopped using: generating it
// again from itself changes nothing.
func TestCurrent(t *testing.T) {
	t.Chdir("../..")
	header, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	sources, err := readSources(folder)
	if err != nil {
		t.Fatal(err)
	}
	got, err := generate(string(header), sources)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(header), got); d != "" {
		t.Errorf("run go run ./internal/genvulkan vulkan_core.h:\n%s", d)
	}
}
