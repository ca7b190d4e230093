package frontend

import "github.com/vkc-go/vkc/ir"

// Operands of these methods have one dtype and broadcast as in NumPy. For a number as operand use the Scalar methods or
// Lit.

// Add returns x+y; integers wrap.
func (t Tensor) Add(y Tensor) Tensor { return t.binary(ir.OpAdd, y) }

// Sub returns x-y; integers wrap.
func (t Tensor) Sub(y Tensor) Tensor { return t.binary(ir.OpSub, y) }

// Mul returns x*y; integers wrap.
func (t Tensor) Mul(y Tensor) Tensor { return t.binary(ir.OpMul, y) }

// Div returns x/y; integers truncate, and an integer x/0 is 0.
func (t Tensor) Div(y Tensor) Tensor { return t.binary(ir.OpDiv, y) }

// AddScalar returns x+y for a number in the dtype of x.
func (t Tensor) AddScalar(y float64) Tensor { return t.Add(t.Lit(y)) }

// SubScalar returns x-y for a number in the dtype of x.
func (t Tensor) SubScalar(y float64) Tensor { return t.Sub(t.Lit(y)) }

// MulScalar returns x*y for a number in the dtype of x.
func (t Tensor) MulScalar(y float64) Tensor { return t.Mul(t.Lit(y)) }

// DivScalar returns x/y for a number in the dtype of x.
func (t Tensor) DivScalar(y float64) Tensor { return t.Div(t.Lit(y)) }

// Mod returns x-y*floor(x/y), which has the sign of y, as in Python. An integer x mod 0 is 0.
func (t Tensor) Mod(y Tensor) Tensor { return t.binary(ir.OpMod, y) }

// Rem returns x-y*trunc(x/y), which has the sign of x, as in Go. An integer x rem 0 is 0.
func (t Tensor) Rem(y Tensor) Tensor { return t.binary(ir.OpRem, y) }

// Pow returns x^y; a negative x needs an integral y.
func (t Tensor) Pow(y Tensor) Tensor { return t.binary(ir.OpPow, y) }

// Min returns the smaller of x and y, or NaN if either is NaN.
func (t Tensor) Min(y Tensor) Tensor { return t.binary(ir.OpMin, y) }

// Max returns the larger of x and y, or NaN if either is NaN.
func (t Tensor) Max(y Tensor) Tensor { return t.binary(ir.OpMax, y) }

// Atan2 returns math.Atan2(t, x): the angle in radians of the point with ordinate t and abscissa x.
func (t Tensor) Atan2(x Tensor) Tensor { return t.binary(ir.OpAtan2, x) }

// And returns the logical and of bools, the bitwise and of integers.
func (t Tensor) And(y Tensor) Tensor { return t.binary(ir.OpAnd, y) }

// Or returns the logical or of bools, the bitwise or of integers.
func (t Tensor) Or(y Tensor) Tensor { return t.binary(ir.OpOr, y) }

// Xor returns the exclusive or of bools, and the bitwise exclusive or of integers.
func (t Tensor) Xor(y Tensor) Tensor { return t.binary(ir.OpXor, y) }

// Shl returns x shifted left by y bits. The result is 0 if y is negative or not less than the width of the dtype.
func (t Tensor) Shl(y Tensor) Tensor { return t.binary(ir.OpShl, y) }

// Shr returns x shifted right by y bits. Signed integers keep their sign. If y is negative, or the dtype's width or
// more, the result is 0, or -1 for a negative x.
func (t Tensor) Shr(y Tensor) Tensor { return t.binary(ir.OpShr, y) }

// Eq returns, as bools, whether x equals y.
func (t Tensor) Eq(y Tensor) Tensor { return t.binary(ir.OpEq, y) }

// Ne returns, as bools, whether x differs from y.
func (t Tensor) Ne(y Tensor) Tensor { return t.binary(ir.OpNe, y) }

// Lt returns, as bools, whether x is less than y.
func (t Tensor) Lt(y Tensor) Tensor { return t.binary(ir.OpLt, y) }

// Le returns, as bools, whether x is at most y.
func (t Tensor) Le(y Tensor) Tensor { return t.binary(ir.OpLe, y) }

// Gt returns, as bools, whether x is greater than y.
func (t Tensor) Gt(y Tensor) Tensor { return t.binary(ir.OpGt, y) }

// Ge returns, as bools, whether x is at least y.
func (t Tensor) Ge(y Tensor) Tensor { return t.binary(ir.OpGe, y) }

// Where returns yes where t is true, and no elsewhere. t is a tensor of bools, or of integers, for which 0 is false.
// All three broadcast.
func (t Tensor) Where(yes, no Tensor) Tensor { return t.apply(ir.OpWhere, []Tensor{yes, no}) }

// Lerp returns x+(y-x)*w, a linear interpolation from x to y.
func (t Tensor) Lerp(y, w Tensor) Tensor { return t.apply(ir.OpLerp, []Tensor{y, w}) }

// After returns t, but only once y has been computed, so that computations that read the result do not start before.
// Both broadcast and have the same numeric dtype. Remat uses it to delay its recomputation.
func (t Tensor) After(y Tensor) Tensor { return t.binary(ir.OpAfter, y) }
