package quant_test

import (
	"fmt"
	"log"
	"math"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/quant"
)

// 256 weights in q4_K take 144 bytes instead of 1024. Reading them back shows the error.
func Example() {
	weights := make([]float32, 256)
	for i := range weights {
		weights[i] = float32(math.Sin(float64(i)))
	}
	size, err := ir.Q4_K.BytesFor(int64(len(weights)))
	if err != nil {
		log.Fatal(err)
	}
	blocks, read := make([]byte, size), make([]float32, len(weights))
	if err := quant.Quantize(blocks, ir.Q4_K, weights, nil); err != nil {
		log.Fatal(err)
	}
	if err := quant.Dequantize(read, ir.Q4_K, blocks); err != nil {
		log.Fatal(err)
	}
	var worst float64
	for i, w := range weights {
		worst = max(worst, math.Abs(float64(w-read[i])))
	}
	fmt.Printf("%d bytes, largest error %.2f\n", size, worst)
	// Output: 144 bytes, largest error 0.07
}
