package rewrite

import (
	"strings"
	"testing"

	"github.com/vkc-go/vkc/ir"
)

// TestFoldCastToBool: every integer except 0 is true, also those whose square has zeros in its low 64 bits or their top
// bit set.
func TestFoldCastToBool(t *testing.T) {
	g, err := ir.Parse(`graph "casts" {
  %x = const {data=i64[5](4294967296, 3037000500, -9223372036854775808, -1, 0)}
  %y = cast %x {dtype=bool}
  output "y" %y
}
`)
	if err != nil {
		t.Fatal(err)
	}
	g, err = FoldConstants(g)
	if err != nil {
		t.Fatal(err)
	}
	if want := "bool[5](true, true, true, true, false)"; !strings.Contains(g.String(), want) {
		t.Errorf("want %s in\n%s", want, g)
	}
}
