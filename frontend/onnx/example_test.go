package onnx_test

import (
	"context"
	"fmt"
	"log"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/onnx"
)

// A model's graph runs like any other. Its weights come from the file.
func Example() {
	model, err := onnx.Open("testdata/cases/linear/model.onnx", onnx.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	x, err := vkc.Of([]float32{1, 2, 3, 4}, 2, 2) // a batch of two
	if err != nil {
		log.Fatal(err)
	}
	out, err := vkc.Run(context.Background(), model.Graph, model, vkc.Tensors{"x": x})
	if err != nil {
		log.Fatal(err)
	}
	y, err := vkc.Values[float32](out["y"])
	fmt.Println(y, err)
	// Output: [0 11 5 23] <nil>
}
