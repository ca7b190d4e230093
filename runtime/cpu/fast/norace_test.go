//go:build !race

package fast_test

const underRace = false
