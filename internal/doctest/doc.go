// Package doctest holds the tests of what the pages promise a reader: that the
// command lines of README.md, docs/FEATURES.md and docs/GUIDE.md run as they stand in a clean
// checkout, that their Go code compiles, that links between pages lead somewhere,
// that the page of environment variables has them all, that docs/measurements
// has every key that code names, that a published version installs, and that
// scripts keep what they promise.
package doctest
