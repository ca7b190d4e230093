package device

// Google's SwiftShader, a driver that computes on the CPU. Its exp2 and log2
// limit their argument by comparisons, which NaN does not survive, and exp and log
// are made of them: exp(NaN) is infinite and log(NaN) 89.1, although it reports
// that NaN is preserved. Its compiler walks every path through the body of a
// loop: 20 branches of two sides in a row take it a second, each more twice as
// long.
func swiftShader(caps Caps) bool { return caps.VendorID == VendorGoogle }

// LosesNaN reports whether exp, exp2, log and log2 of NaN may be a number: where
// float controls cannot ask for it to be kept, and where they are known to be
// ignored.
func LosesNaN(caps Caps) bool { return !caps.Features.PreserveNaN32 || swiftShader(caps) }

// LosesHalfInfinity reports whether packHalf2x16 makes NaN of infinities.
func LosesHalfInfinity(caps Caps) bool { return swiftShader(caps) }

// RoundsWordsTwice reports whether float(x) of a word rounds its 31 low bits and then the sum with the highest one.
func RoundsWordsTwice(caps Caps) bool { return swiftShader(caps) }

// DearBranches reports whether a driver's compiler takes so much for branches that
// those around dead stores must go.
func DearBranches(caps Caps) bool { return swiftShader(caps) }

// FusesNothing reports whether a device has no fused multiply-add instruction. Its driver can then be told not to
// reassociate sums of products, at no cost: Mesa's driver rewrites a*b + a*c to a*(b+c).
func FusesNothing(caps Caps) bool { return caps.Type == DeviceCPU }
