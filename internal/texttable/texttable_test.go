package texttable_test

import (
	"reflect"
	"testing"

	"github.com/vkc-go/vkc/internal/texttable"
)

func TestByFirst(t *testing.T) {
	got := texttable.ByFirst("\n\ta  b c\n\n b\n\ta d\n")
	want := map[string][][]string{"a": {{"b", "c"}, {"d"}}, "b": {{}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
