// Package ceil rounds quotients of whole numbers up.
package ceil

// Div returns n/by rounded up. by must be positive.
func Div[N int | int64 | uint64](n, by N) N {
	quotient := n / by // Go rounds toward 0, so a negative quotient is rounded up already
	if n%by > 0 {
		quotient++
	}
	return quotient
}

// Multiple returns the smallest multiple of `of` that is at least n. of must be positive.
func Multiple[N int | int64 | uint64](n, of N) N { return Div(n, of) * of }
