package fast

import (
	"testing"

	"github.com/vkc-go/vkc/internal/disabled"
)

// eachWidth runs a test with each width of vectors that this processor has, and without vectors.
func eachWidth(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	defer func(v *assembly) { vector = v }(vector)
	for _, vector = range append([]*assembly{nil}, assemblies()...) {
		name := "plain"
		if vector != nil {
			name = vector.name
		}
		t.Run(name, test)
	}
}

// TestWidest: the widest vectors are used that are not disabled.
func TestWidest(t *testing.T) {
	list := []*assembly{{name: "avx2"}, {name: disabled.AVX512}}
	for _, c := range []struct{ off, want string }{{"", disabled.AVX512}, {"coopmat,avx512", "avx2"},
		{"avx512x", disabled.AVX512}} {
		t.Setenv(disabled.Env, c.off)
		if a := widest(list); a.name != c.want {
			t.Errorf("without %q it is %s, want %s", c.off, a.name, c.want)
		}
	}
	if a := widest(nil); a != nil {
		t.Errorf("of none it is %s", a.name)
	}
}
