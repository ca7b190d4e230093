//go:build !amd64

package fast

func convTile(count int, out []float32, stride int, in []float32, offsets []int32, weights []float32, skip,
	blocks int) {
	convTilePlain(count*lanes, out, stride, in, offsets, weights, skip, blocks)
}

func convTaps(out, in []float32, offsets []int32, weights []float32, n int) {
	convTapsPlain(out[:n], in, offsets, weights)
}

func convPosition(out, terms, weights []float32) { convPositionPlain(out, terms, weights) }

func moveRows(dst []float32, to int, src []float32, from, n, rows int) {
	moveRowsPlain(dst, to, src, from, n, rows)
}

func secondOnes([]float32, []float32) int { return 0 }
