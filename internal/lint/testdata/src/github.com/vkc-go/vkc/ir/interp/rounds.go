package interp

import "math"

type number interface{ ~int64 | ~float64 }

func sums(x, y, z float64, n int) float64 {
	a := x*y + z      // want `a product of floats is added`
	b := z - x*y      // want `a product of floats is added`
	c := -(x * y) + z // want `a product of floats is added`
	a += x * y        // want `a product of floats is added`
	p := x * y
	b += p // want `a product of floats is added`
	q := x
	q *= y
	c = q - c // want `a product of floats is added`

	a += float64(x * y)
	b = float64(x*y) + z
	c = math.FMA(x, y, z)
	r := float64(x * y)
	c += r
	m := n*n + n
	return a + b*c/2 + float64(m) + 2*3.5
}

func half(x float32) float32 {
	return x*x - 1 // want `a product of floats is added`
}

func generic[T number](x, y, z T) T {
	return x*y + z // want `a product of floats is added`
}

func exact[T number](x, y, z T) T { return T(x*y) + z }
