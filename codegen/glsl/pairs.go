package glsl

import (
	"github.com/vkc-go/vkc/ir"
)

// Devices without 64-bit integers have i64 as pairs of words, the low one first, which is
// also how it lies in memory. Pairs do what target.PairOps lists.

// pair is the compute type of i64 there.
const pair = "uvec2"

// pairScalar is i64's row there. Of pairs there are no vectors.
var pairScalar = scalar{compute: pair, storage: pair, carrier: pair, vec: pair, storageVec: pair}

// pairs reports whether i64 is computed in pairs. Custom kernels bring their own text,
// and with it their needs.
func (e *emitter) pairs() bool { return !e.caps.Features.Int64 && e.k.Custom == nil }

func (e *emitter) inPairs(b *buffer) bool { return b.DType == ir.I64 && e.pairs() }

// pairForms are the scalar forms of ops whose last argument is a pair.
var pairForms = map[ir.Op]string{
	ir.OpNeg: "pair_add(~{0}, uvec2(1u, 0u))",
	ir.OpAdd: "pair_add({0}, {1})",
	ir.OpSub: "pair_subtract({0}, {1})",
	ir.OpMul: "pair_multiply({0}, {1})",
	ir.OpMin: "(pair_less({1}, {0}) ? {1} : {0})",
	ir.OpMax: "(pair_less({0}, {1}) ? {1} : {0})",
	ir.OpAnd: "{0} & {1}",
	ir.OpOr:  "{0} | {1}",
	ir.OpXor: "{0} ^ {1}",
	ir.OpNot: "~{0}",
	ir.OpEq:  "{0} == {1}",
	ir.OpNe:  "{0} != {1}",
	ir.OpLt:  "pair_less({0}, {1})",
	ir.OpLe:  "!pair_less({1}, {0})",
	ir.OpGt:  "pair_less({1}, {0})",
	ir.OpGe:  "!pair_less({0}, {1})",

	ir.OpWhere: "({0} ? {1} : {2})",
}

// pairLit spells a constant.
func pairLit(n int64) text {
	return call(pair, uintLit(n&0xffffffff), uintLit(n>>32&0xffffffff))
}

// coercePair converts to or from a pair, as a constructor does between other types.
func (e *emitter) coercePair(from, to string, v text) text {
	low := primary(v.at(precPrimary) + ".x")
	switch {
	case to == "uint":
		return low
	case to == "int":
		return call("int", low)
	case to == "float":
		e.helper("pair_to_float", pair)
		return call("pair_to_float", v)
	case from == "int":
		e.helper("int_to_pair", pair)
		return call("int_to_pair", v)
	case from == "uint":
		return call(pair, v, uintLit(0))
	case from == "bool":
		return call(pair, call("uint", v), uintLit(0))
	}
	e.fail("no conversion of %s to %s", from, to)
	return v
}

var pairOnly = []string{pair}

// pairLibrary is the arithmetic of pairs, which wraps around.
var pairLibrary = []helper{
	{"int_to_pair", pairOnly, nil, `
uvec2 int_to_pair(int x) {
    return uvec2(uint(x), uint(x >> 31));
}`},
	{"pair_to_int", pairOnly, nil, `
// Saturates.
int pair_to_int(uvec2 x) {
    if (int(x.y) == int(x.x) >> 31) return int(x.x);
    return int(x.y) < 0 ? -0x7fffffff - 1 : 0x7fffffff;
}`},
	{"pair_add", pairOnly, nil, `
uvec2 pair_add(uvec2 a, uvec2 b) {
    uint carry;
    uint low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}`},
	{"pair_subtract", pairOnly, nil, `
uvec2 pair_subtract(uvec2 a, uvec2 b) {
    uint borrow;
    uint low = usubBorrow(a.x, b.x, borrow);
    return uvec2(low, a.y - b.y - borrow);
}`},
	{"pair_multiply", pairOnly, nil, `
uvec2 pair_multiply(uvec2 a, uvec2 b) {
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}`},
	{"pair_less", pairOnly, nil, `
bool pair_less(uvec2 a, uvec2 b) {
    return int(a.y) < int(b.y) || a.y == b.y && a.x < b.x;
}`},
	{"pair_to_float", pairOnly, []string{"pair_add"}, `
// Rounds to nearest even: of 32 bits from the first that is set, the last stands for all
// that follow.
float pair_to_float(uvec2 x) {
    bool negative = int(x.y) < 0;
    if (negative) x = pair_add(~x, uvec2(1u, 0u));
    float size = float(x.x);
    if (x.y != 0u) {
        int up = 31 - findMSB(x.y);
        uint top = up == 0 ? x.y : x.y << up | x.x >> 32 - up;
        if (x.x << up != 0u) top |= 1u;
        size = float(top) * uintBitsToFloat(uint(159 - up) << 23);
    }
    return negative ? -size : size;
}`},
	{"float_to_pair", pairOnly, []string{"pair_add"}, `
// Truncates and saturates; NaN gives 0.
uvec2 float_to_pair(float x) {
    if (isnan(x)) return uvec2(0u);
    if (x >= 9223372036854775808.0) return uvec2(0xffffffffu, 0x7fffffffu);
    if (x <= -9223372036854775808.0) return uvec2(0u, 0x80000000u);
    float size = trunc(abs(x)), high = floor(size / 4294967296.0);
    uvec2 whole = uvec2(uint(size - high * 4294967296.0), uint(high));
    return x < 0.0 ? pair_add(~whole, uvec2(1u, 0u)) : whole;
}`},
}
