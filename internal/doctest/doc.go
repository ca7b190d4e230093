// Package doctest tests the claims of the documentation: that the command lines of README.md, docs/FEATURES.md and
// docs/GUIDE.md run unchanged in a clean checkout, that the Go code in them compiles, that links between pages resolve,
// that the page of environment variables is complete, that docs/measurements has every key that code names, that a
// published version installs, and that scripts do as their descriptions say.
package doctest
