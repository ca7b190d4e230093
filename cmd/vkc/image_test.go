package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vkc-go/vkc/internal/visiontest"
)

// TestImages: generate and chat read pictures by the mmproj file next to the model.
func TestImages(t *testing.T) {
	model := withTemplate(t, "{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}")
	photo := write(t, "photo.png", visiontest.PNG(t, 1, 20, 12))
	line := []string{"generate", "-m", model, "--device", "cpu", "-n", "2", "--ctx", "128", "--stats", "-p", "func"}
	prompt := func(args ...string) string {
		t.Helper()
		return regexp.MustCompile(`\d+ tokens of the prompt`).FindString(ok(t, args...).stderr)
	}
	fails(t, 1, append(line, "--image", photo), "the model reads no pictures", "want its mmproj file next to it")
	tower := filepath.Join(filepath.Dir(model), "mmproj-tiny.gguf")
	visiontest.WriteTower(t, tower, 256)
	without, with := prompt(line...), prompt(append(line, "--image", photo, "--image", photo)...)
	if without != "2 tokens of the prompt" || !strings.HasPrefix(with, "36") { // a line break follows each picture
		t.Errorf("%s, with pictures %s", without, with)
	}
	if chat := prompt(append(line, "--image", photo, "--chat")...); chat < "20" {
		t.Errorf("in a conversation %s", chat)
	}
	fails(t, 1, append(line, "--image", photo, "--mmproj", "none"), "the model reads no pictures")
	fails(t, 1, append(line, "--image", model), "the picture has an unknown format", "want PNG, JPEG, GIF, WebP or BMP")
	fails(t, 1, append(line, "--image", photo+"x"), "no such file")
	fails(t, 2, append(line, "--image", photo, "--mmproj", model), "want clip, which an mmproj file has")
	if err := os.Rename(tower, tower+"x"); err != nil {
		t.Fatal(err)
	}
	visiontest.WriteTower(t, tower, 128)
	fails(t, 2, append(line, "--image", photo), "the tower's rows have 128 elements, and the model's 256")

	if err := os.Rename(tower+"x", tower); err != nil {
		t.Fatal(err)
	}
	typed(t, "if\n/image "+photo+"\n/image nothing\nfor\n/retry\n/clear\nif\n")
	r := ok(t, "chat", "-m", model, "--device", "cpu", "-n", "2", "--ctx", "128", "--stats", "--image", photo)
	list := regexp.MustCompile(`(\d+) tokens of the prompt`).FindAllStringSubmatch(r.stdout, -1)
	if len(list) != 4 || list[1][1] != list[2][1] || len(list[0][1]) != 2 || len(list[1][1]) != 2 ||
		len(list[3][1]) > 1 {
		t.Errorf("prompts %v\n%s", list, r.stdout)
	}
	has(t, r.stdout, "[a picture of 16 tokens, with your next message]", "open nothing: no such file")
}
