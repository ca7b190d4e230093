package ir_test

import (
	"fmt"
	"log"

	"github.com/vkc-go/vkc/ir"
)

// A graph prints as text, and Parse reads the text.
func ExampleParse() {
	g, err := ir.Parse(`graph "scale" {
  symbol N <= 1024
  %x = input {name="x", dtype=f32, shape=[N]}
  %y = relu %x
  output "y" %y
}`)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(g)
	// Output:
	// graph "scale" {
	//   symbol N <= 1024
	//   %0 = input {name="x", dtype=f32, shape=[N]} : f32[N]
	//   %1 = relu %0 : f32[N]
	//   output "y" %1
	// }
}

// NewData and FromFloats make tensors of any dtype.
func ExampleFromFloats() {
	d, err := ir.FromFloats(ir.BF16, []float64{1, 0.1}, 2)
	if err != nil {
		log.Fatal(err)
	}
	values, err := d.Floats() // bf16 has 8 bits of precision
	fmt.Println(d, values, err)
	// Output: bf16[2] [1 0.10009765625] <nil>
}
