package npy_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/npy"
)

// A tensor goes to a .npy file, which numpy.load reads, and back. WriteFile and ReadFile do the same with a path.
func Example() {
	d, err := npy.ParseLiteral("[[1, 2.5], [nan, -inf]]", ir.F32)
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if err := npy.Write(&file, d); err != nil {
		log.Fatal(err)
	}
	back, err := npy.Read(file.Bytes())
	if err != nil {
		log.Fatal(err)
	}
	values, err := back.Floats()
	fmt.Println(back, values, err)
	// Output: f32[2 2] [1 2.5 NaN -Inf] <nil>
}
