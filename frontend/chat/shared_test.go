package chat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vkc-go/vkc/frontend/chat"
)

// TestPublished renders the templates of published models, and compares the text or the error with Jinja's.
func TestPublished(t *testing.T) {
	folder := os.Getenv("VKC_TESTDATA")
	if folder == "" {
		t.Skip("VKC_TESTDATA names no folder with templates in chat-templates/")
	}
	folder = filepath.Join(folder, "chat-templates")
	templates, err := filepath.Glob(filepath.Join(folder, "*.jinja"))
	if err != nil || len(templates) == 0 {
		t.Fatalf("%s has no .jinja: %v", folder, err)
	}
	contexts, err := filepath.Glob(filepath.Join(folder, "contexts", "*.json"))
	if err != nil || len(contexts) == 0 {
		t.Fatalf("%s has no contexts/*.json: %v", folder, err)
	}
	for _, path := range templates {
		for _, c := range contexts {
			name := strings.TrimSuffix(path, ".jinja") + "." + strings.TrimSuffix(filepath.Base(c), ".json")
			t.Run(filepath.Base(name), func(t *testing.T) {
				got, err := render(t, read(t, path), read(t, c))
				want, missing := os.ReadFile(name + ".txt")
				switch {
				case missing != nil:
					refusal := read(t, name+".error")
					if err == nil {
						t.Errorf("no error, want one like %s", refusal)
					}
					t.Logf("%v; Jinja says %s", err, refusal)
				case err != nil:
					t.Error(err)
				case got != string(want):
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// render renders a template with the variables of a JSON object.
func render(t testing.TB, source, context string) (string, error) {
	t.Helper()
	v, err := chat.ParseJSON([]byte(context))
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := chat.Parse(source)
	if err != nil {
		return "", err
	}
	pieces, err := tmpl.Render(chat.Context{More: v.(chat.Object), Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)})
	return chat.Text(pieces), err
}
