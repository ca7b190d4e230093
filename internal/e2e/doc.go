// Package e2e holds tests that take graphs the whole way: through the passes
// and the code generator to a device, with every result compared with that of
// the reference interpreter.
package e2e
