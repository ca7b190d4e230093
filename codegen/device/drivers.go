package device

// swiftShader reports whether the driver is Google's SwiftShader, which runs on the processor. It reports that it
// preserves NaN. But its exp2 and log2, which exp and log use, clamp their argument by comparisons that lose NaN:
// exp(NaN) is infinite and log(NaN) is 89.1. Its compiler explores every path through a loop body: 20 consecutive
// two-way branches take a second, and each further branch doubles that time.
func swiftShader(caps Caps) bool { return caps.VendorID == VendorGoogle }

// LosesNaN reports whether exp, exp2, log and log2 of NaN may return a number. That is so if shaders cannot request
// that NaN is preserved, or if the driver ignores the request.
func LosesNaN(caps Caps) bool { return !caps.Features.PreserveNaN32 || swiftShader(caps) }

// LosesHalfInfinity reports whether packHalf2x16 turns infinities into NaN.
func LosesHalfInfinity(caps Caps) bool { return swiftShader(caps) }

// RoundsWordsTwice reports whether float(x) of a uint rounds twice: first the low 31 bits, and then the sum with the
// high bit.
func RoundsWordsTwice(caps Caps) bool { return swiftShader(caps) }

// SlowBranches reports whether the driver's compiler takes seconds for a loop body with many branches. For such a
// driver, spirv-opt must remove dead stores, because the branches around them then go too.
func SlowBranches(caps Caps) bool { return swiftShader(caps) }

// FusesNothing reports whether the driver uses no fused multiply-add, as on software devices. These drivers rewrite
// a*b + a*c to a*(b+c), unless the shader fixes the order of the operations, which costs nothing there.
func FusesNothing(caps Caps) bool { return caps.Type == DeviceCPU }

// UnrollsSlowly reports whether the driver is Mesa's lavapipe. Its compiler unrolls loops of up to 32 iterations, and
// takes seconds for the long code, which runs no faster (M-kept-loops). A cooperative matrix is code for each of its
// elements.
func UnrollsSlowly(caps Caps) bool { return caps.DriverID == driverLavapipe }

// RunsLoopsWithoutTrips reports whether the driver is Mesa's lavapipe. It runs the body of a loop that no invocation
// enters, without active invocations. An inner loop that is not unrolled then indexes arrays by a counter that nothing
// has set, which can crash (M-kept-loops).
func RunsLoopsWithoutTrips(caps Caps) bool { return caps.DriverID == driverLavapipe }

// ConfusesNegatives reports whether the driver is or may be NVIDIA's: profile generic names no vendor. Its compiler
// makes wrong code for nested minima of 32-bit integers if all of their arguments are negative values, as in
// min(min(-a, -b), -c). The same holds for maxima (580.159.04 on an H200). It recognizes -a as 0 - a and -1 * a, too.
func ConfusesNegatives(caps Caps) bool {
	return caps.Type != DeviceCPU && (caps.VendorID == 0 || caps.VendorID == VendorNVIDIA) && caps.DriverID != DriverNVK
}

// DividesToNearest reports whether the device's division of f32 gives the nearest number. Software devices use the
// processor's division. Vulkan allows other devices an error of 2.5 units in the last place, and has no query for it.
func DividesToNearest(caps Caps) bool { return caps.Type == DeviceCPU }
