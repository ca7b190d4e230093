// Package ahead says how many steps of a language model a device has at a time, each of which takes the tokens that the
// one before it chose: which are given to it together, and how many are waited for at once.
package ahead

import "time"

// The device has as many steps at a time as it takes enough for, and at least least: where they are short, so many that
// the host is seldom woken up, and where they are long, so few that those behind the end of an answer, and a new
// answer's wait for those that others were given, are short. It has few at most, and most at most once twice as many
// have landed: then those behind the end are half as many as the answer took, or fewer.
const (
	enough = 10 * time.Millisecond
	least  = 2
	few    = 16
	most   = 32
)

// First is the pace to begin with, at which a device has the fewest steps.
const First = enough

// Depth is how many steps the device is to have at a time that take so long each, when so many have landed.
func Depth(pace time.Duration, landed int) int {
	deepest := few
	if landed >= 2*most {
		deepest = most
	}
	return min(int(max(enough/max(pace, 1), least)), deepest)
}

// Begun bounds the depth where texts may join a batch, by how many of its steps have landed since one joined or left:
// what comes at the same time as the first of them then waits for few steps, and begins with them.
func Begun(landed int) int { return max(least, 2*landed) }

// Landing is how many of the steps that the device has are waited for at once, the first ones: to be woken up costs
// processors more time than to start a step (M-host-token).
func Landing(flying int) int { return max(1, flying/2) }

// Gathers reports whether the next step, after so many that the device has of so many that it is to have, is given to
// it together with the one that follows: steps that are landed together are, but for a first one, which the device
// waits for.
func Gathers(flying, depth int) bool {
	return flying > 0 && flying+1 != Landing(depth) && flying+1 < depth
}
