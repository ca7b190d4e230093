package spirv

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// optimizerPasses are the passes of spirv-opt's own -O (version 2026.4; also of 2023.1 with scalar-replacement=100),
// with two changes.
//
// The first change adds merge-blocks after loop-unroll. Unrolling leaves a chain of hundreds of basic blocks, and the
// redundancy-elimination that follows copies its table of values for each block. After merging there is one block. For
// every shader tried, the result was the same byte for byte, after compact-ids. These are times of spirv-opt 2026.4 for
// an f32 matmul with an unrolled k-loop of 16:
//
//	tile per thread   -O        these passes
//	4x4               0.14 s    0.04 s
//	8x8               0.97 s    0.18 s
//	8x16              4.6 s     0.38 s
//
// The second change removes the size limit of scalar-replacement: 2023.1 leaves arrays of more than 100 elements in
// memory, such as an 8x16 accumulator.
//
// loop-unroll unrolls every loop marked [[unroll]] that counts from a constant to a constant (<, <=, >, >=) by adding
// or subtracting a constant. It does not unroll loops with !=, i *= 2, i >>= 1, continue or break, or nested loops if
// the inner bound depends on the outer counter. These loops keep the mark, so that the driver may unroll them.
//
// The last two passes drop names, which drivers do not read, and renumber the ids, because drivers allocate tables for
// unused ids too.
var optimizerPasses = strings.Fields(`
	--wrap-opkill --eliminate-dead-branches --merge-return
	--inline-entry-points-exhaustive --eliminate-dead-functions
	--eliminate-dead-code-aggressive --private-to-local
	--eliminate-local-single-block --eliminate-local-single-store
	--eliminate-dead-code-aggressive --scalar-replacement=0
	--convert-local-access-chains --eliminate-local-single-block
	--eliminate-local-single-store --eliminate-dead-code-aggressive
	--ssa-rewrite --eliminate-dead-code-aggressive --ccp
	--eliminate-dead-code-aggressive
	--loop-unroll --eliminate-dead-branches --merge-blocks
	--redundancy-elimination --combine-access-chains --simplify-instructions
	--scalar-replacement=0 --convert-local-access-chains
	--eliminate-local-single-block --eliminate-local-single-store
	--eliminate-dead-code-aggressive --ssa-rewrite
	--eliminate-dead-code-aggressive --vector-dce --eliminate-dead-inserts
	--eliminate-dead-branches --simplify-instructions --if-conversion
	--copy-propagate-arrays --reduce-load-size
	--eliminate-dead-code-aggressive --merge-blocks --redundancy-elimination
	--eliminate-dead-branches --merge-blocks --simplify-instructions
	--strip-debug --compact-ids`)

// carefulPasses are optimizerPasses without the passes that fold conversions of constants. spirv-opt 2026.4 folds them
// to constants of 8 and 16 bits, which are invalid in a module that only loads and stores such numbers.
var carefulPasses = slices.DeleteFunc(slices.Clone(optimizerPasses), func(pass string) bool {
	return pass == "--ccp" || pass == "--simplify-instructions"
})

// passesKey is the part of the cache key that identifies the passes.
var passesKey = strings.Join(optimizerPasses, " ") + " or " + strings.Join(carefulPasses, " ")

// optimize replaces the unit's module by an optimized one. If the usual passes create constants that are invalid (see
// smallConstants), it tries carefulPasses, and otherwise keeps the module as it was.
func (c *compilation) optimize(ctx context.Context, u *unit) error {
	plain := u.module
	for _, passes := range [][]string{optimizerPasses, carefulPasses} {
		u.module = plain
		if err := c.optimizeWith(ctx, u, passes); err != nil || u.module == nil || !smallConstants(u.module) {
			return err
		}
	}
	u.module = plain
	return nil
}

// optimizeWith replaces the unit's module by the result of the given passes, or records the tool's error in the unit.
func (c *compilation) optimizeWith(ctx context.Context, u *unit, passes []string) error {
	args := append([]string{"--target-env=" + u.shader.TargetEnv}, passes...)
	out, err := c.run(ctx, c.tools.Opt, command{stdin: u.module, args: append(args, "-", "-o", "-"), module: true})
	if err != nil {
		return u.fail(c.tools.Opt, err)
	}
	if err := CheckModule(out.stdout); err != nil {
		u.reject(toolFailure(u, c.tools.Opt.Name, "output is "+err.Error(), string(out.stderr)))
		return nil
	}
	u.module = out.stdout
	return nil
}

// validate runs spirv-val over the unit's module.
func (c *compilation) validate(ctx context.Context, u *unit) error {
	_, err := c.run(ctx, c.tools.Val, command{
		stdin: u.module, args: []string{"--target-env", u.shader.TargetEnv, "-"}})
	return u.fail(c.tools.Val, err)
}

// fail records in the unit that a tool rejected it, so that the other shaders continue. It returns any other error,
// which stops the compilation.
func (u *unit) fail(tool Tool, err error) error {
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		u.reject(failureOf(u, tool.Name, exit))
		return nil
	}
	return err
}
