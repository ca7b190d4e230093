// Hello compiles a function of tensors for the best device, and calls it:
//
//	go run ./examples/hello
package main

import (
	"fmt"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

func main() {
	f := vkc.Func[func(x []float32) ([]float32, error)](func(x frontend.Tensor) frontend.Tensor {
		return x.MulScalar(2).AddScalar(1).Relu()
	})
	fmt.Println(vkc.Must(f([]float32{-2, 0, 3}))) // [0 1 7]
}
