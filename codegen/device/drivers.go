package device

// Google's SwiftShader is a driver for the CPU. Its exp2 and log2 clamp their argument by comparisons that lose NaN,
// and exp and log are built on them: exp(NaN) is infinite and log(NaN) is 89.1, although the driver reports that it
// preserves NaN. Its compiler explores every path through a loop body: 20 consecutive two-way branches take a second,
// and each further one doubles that.
func swiftShader(caps Caps) bool { return caps.VendorID == VendorGoogle }

// LosesNaN reports whether exp, exp2, log and log2 of NaN may be a number: if float controls cannot request preserving
// it, or are known to be ignored.
func LosesNaN(caps Caps) bool { return !caps.Features.PreserveNaN32 || swiftShader(caps) }

// LosesHalfInfinity reports whether packHalf2x16 makes NaN of infinities.
func LosesHalfInfinity(caps Caps) bool { return swiftShader(caps) }

// RoundsWordsTwice reports whether float(x) of a word rounds its 31 low bits and then the sum with the highest one.
func RoundsWordsTwice(caps Caps) bool { return swiftShader(caps) }

// DearBranches reports whether branches are so expensive in a driver's compiler that those around dead stores must be
// removed.
func DearBranches(caps Caps) bool { return swiftShader(caps) }

// FusesNothing reports whether a device has no fused multiply-add instruction. Its driver can then be told not to
// reassociate sums of products, at no cost: Mesa's driver rewrites a*b + a*c to a*(b+c).
func FusesNothing(caps Caps) bool { return caps.Type == DeviceCPU }
