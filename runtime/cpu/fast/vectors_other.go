//go:build !amd64

package fast

import "github.com/vkc-go/vkc/ir"

// On these processors there is no assembly. See vectors_amd64.go for the functions' meaning.

func assemblies() []*assembly { return nil }

func exps(x []float32, shift float32) { expsPlain(x, shift) }

func fill(list []float32, x float32) { fillPlain(list, x) }

func assembled() map[string]func(out, x, y, z *float32, n int) { return nil }

func assembledFormats() map[ir.DType]format { return nil }

func roundBytes(*int8, *float32, *float32, *float32, int) {}

func roundRecords(*int8, *float32, *float32, int) {}

// reductions is empty, because there is no assembly. Reducers fold one element after the other.
var reductions map[string]reduction

func runningSums(_, _ []float32, sum float64) (float64, int) { return sum, 0 }

func addRunning(_ []float64, _, _ []float32) int { return 0 }

func beatenBy([]float32, []int32, []float32, int32, bool) int { return 0 }

func skip([]float32, float32) int { return 0 }

func transposeSquares(_, _ []float32, _, _, _, _ int) bool { return false }
