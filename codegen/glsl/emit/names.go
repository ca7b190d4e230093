package emit

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/vkc-go/vkc/codegen/glsl/lib"
	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/ir"
)

// Reserved has the words that cannot name a variable, or would hide a function: keywords of GLSL 4.6, words reserved
// for future versions, and built-in names.
var Reserved = WordSet(`
	attribute const uniform varying buffer shared coherent volatile restrict readonly writeonly atomic_uint
	layout centroid flat smooth noperspective patch sample invariant precise break continue do for while
	switch case default if else subroutine in out inout int void bool true false float double discard return
	lowp mediump highp precision struct common partition active asm class union enum typedef template this
	resource goto inline noinline public static extern external interface long short half fixed unsigned
	superp input output filter sizeof cast namespace using main
	uint vec2 vec3 vec4 ivec2 ivec3 ivec4 uvec2 uvec3 uvec4 bvec2 bvec3 bvec4 dvec2 dvec3 dvec4
	mat2 mat3 mat4 hvec2 hvec3 hvec4 fvec2 fvec3 fvec4 sampler1D sampler2D sampler3D image1D image2D image3D
	int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t float16_t float32_t float64_t
	bfloat16_t coopmat texture
	radians degrees sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh pow exp log exp2 log2 sqrt
	inversesqrt abs sign floor trunc round roundEven ceil fract mod modf min max clamp mix step smoothstep
	isnan isinf floatBitsToInt floatBitsToUint intBitsToFloat uintBitsToFloat fma frexp ldexp packHalf2x16
	unpackHalf2x16 length distance dot cross normalize reflect refract transpose determinant inverse
	lessThan lessThanEqual greaterThan greaterThanEqual equal notEqual any all not bitfieldExtract
	bitfieldInsert bitfieldReverse bitCount findLSB findMSB barrier memoryBarrier`)

// WordSet returns the set of the words in s.
func WordSet(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

var notAlphanumeric = regexp.MustCompile(`[^A-Za-z0-9]+`)

// identifier makes a legal GLSL name of any string. The name has only letters, digits and single underscores, and no
// reserved prefix.
func identifier(s string) string {
	name := strings.TrimLeft(notAlphanumeric.ReplaceAllString(s, "_"), "_0123456789")
	name = strings.TrimSuffix(name[:min(len(name), 40)], "_")
	if name == "" || strings.HasPrefix(name, "gl_") {
		name = "v" + name
	}
	return name
}

// resultNames has names for variables that hold the results of ops. The op's own name is a verb or an abbreviation,
// which reads badly as the name of a value.
var resultNames = map[ir.Op]string{
	ir.OpAbs: "magnitude", ir.OpSqr: "square", ir.OpSqrt: "root", ir.OpExp: "exponential", ir.OpLog: "logarithm",
	ir.OpSin: "sine", ir.OpCos: "cosine", ir.OpTan: "tangent", ir.OpPow: "power", ir.OpFloor: "whole", ir.OpCeil: "next_whole",
	ir.OpRound: "rounded", ir.OpTrunc: "truncated", ir.OpAdd: "sum", ir.OpSub: "difference", ir.OpMul: "product", ir.OpDiv: "ratio",
	ir.OpRem: "rest", ir.OpMod: "rest", ir.OpMin: "smaller", ir.OpMax: "larger", ir.OpWhere: "choice", ir.OpNeg: "negative",
	ir.OpEq: "same", ir.OpNe: "differs", ir.OpLt: "below", ir.OpLe: "at_most", ir.OpGt: "above", ir.OpGe: "at_least",
	ir.OpAnd: "both", ir.OpOr: "either", ir.OpXor: "one_alone", ir.OpNot: "opposite", ir.OpShl: "raised", ir.OpShr: "lowered",
	ir.OpAffine: "scaled",
}

// HintOf returns a name for a value: its hint, or the result name of its op. A cast is named after its operand and
// dtype, such as weight_f16.
func HintOf(v *kernel.Expr) string {
	op, err := ir.ParseOp(v.Hint)
	isOpName := err == nil && op == v.Op // such a hint says nothing more than the op
	if v.Kind != kernel.ExprApply || v.Hint != "" && !isOpName {
		return v.Hint
	}
	if v.Op == ir.OpCast {
		return cmp.Or(HintOf(v.Args[0]), "as") + "_" + v.DType.String()
	}
	if name, ok := resultNames[v.Op]; ok {
		return name
	}
	return v.Op.String()
}

// Unusable reports whether GLSL or the library uses a name.
func Unusable(name string) bool { return Reserved[name] || lib.Names[name] || name == laneName }

// Fresh returns a name like base that hides no other name, and reserves it in scope s. Sibling blocks may use the same
// name.
func (c *Code) Fresh(s *scope, base string) string {
	name := c.Free(identifier(base))
	s.block().Names[name] = true
	return name
}

// Free returns a name like base, which is a legal name, that hides no other name. It does not reserve the name: it is
// for a block that will be opened next.
func (c *Code) Free(base string) string {
	name := base
	for n := 2; Unusable(name) || c.taken(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	return name
}

// taken reports whether any open scope has the name. It begins with the innermost scope, because a value may be
// declared in an outer block while an inner block is being written.
func (c *Code) taken(name string) bool {
	for s := c.Scope; s != nil; s = s.parent {
		if s.Names[name] {
			return true
		}
	}
	return false
}
