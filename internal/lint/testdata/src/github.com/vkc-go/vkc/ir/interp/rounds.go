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

type pair struct{ scaled, plain float64 }

// fields: a field may be a product wherever its value was set.
func fields(x, y, z float64) float64 {
	p := pair{scaled: x * y, plain: float64(x * y)}
	q := pair{float64(x * y), z}
	p.plain = float64(q.plain * y)
	return p.scaled + z + // want `a product of floats is added`
		p.plain
}

type squared struct{ of, sum float64 }

func positional(x float64) float64 { s := squared{x * x, x}; return s.of - s.sum } // want `a product of floats is added`

func area(x, y float64) float64 { return x * y }

func rounded(x, y float64) float64 { return float64(x * y) }

func scaled[T number](x, y T) T { return x * y }

// results: the compiler may inline a function that returns a product.
func results(x, y, z float64) float64 {
	z = area(x, y) + z // want `a product of floats is added`
	z -= scaled(x, y)  // want `a product of floats is added`
	twice := func(x float64) float64 { return 1.9 * x }
	z = twice(x) - twice(y) // want `a product of floats is added`
	return rounded(x, y) + z
}
