// Package ahead decides how many decode steps of a language model are in flight on a device, where each step takes the
// tokens that the previous step chose. It also decides which steps are submitted together, and how many are collected
// at once.
package ahead

import "time"

// Limits of the number of steps in flight. A step is collected when the host has read its token. The target is the
// number of steps that take targetTime on the device, and at least minSteps. So the host rarely wakes up for short
// steps. For long steps, few steps are wasted after the end of an answer, and a new answer waits only for a few steps
// of the others. The target is at most earlySteps, and at most maxSteps once 2*maxSteps steps were collected. So a
// short answer wastes few steps.
const (
	targetTime = 10 * time.Millisecond
	minSteps   = 2
	earlySteps = 16
	maxSteps   = 32
)

// First is the initial pace, at which a device has the fewest steps in flight.
const First = targetTime

// Depth returns the number of steps that should be in flight, given the time of a step and the number of collected
// steps.
func Depth(pace time.Duration, collected int) int {
	deepest := earlySteps
	if collected >= 2*maxSteps {
		deepest = maxSteps
	}
	return min(int(max(targetTime/max(pace, 1), minSteps)), deepest)
}

// JoinDepth returns the maximum number of steps in flight for a batch that new answers may join. collected is the
// number of steps collected since an answer last joined or left. At first the maximum is low, so that requests which
// arrive shortly after the first one wait for few steps, and start together.
func JoinDepth(collected int) int { return max(minSteps, 2*collected) }

// CollectAtOnce returns how many of the steps in flight the host collects together, oldest first. Waking up costs the
// CPU more time than starting a step (M-host-token).
func CollectAtOnce(inFlight int) int { return max(1, inFlight/2) }

// SubmitsTogether reports whether the next step waits, to be submitted together with its successor. inFlight is the
// number of steps in flight, and depth their target. Steps that are collected together are submitted together. A step
// is submitted alone if none is in flight, because then the device is idle.
func SubmitsTogether(inFlight, depth int) bool {
	return inFlight > 0 && inFlight+1 != CollectAtOnce(depth) && inFlight+1 < depth
}
