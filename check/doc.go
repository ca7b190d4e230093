// Package check compares a device's results with the results of the CPU reference, within a tolerance for each value.
//
//	c, err := check.New(g, weights)
//	report, err := c.Check(ctx, exe, in, nil, result.Outputs)
//	err = report.Err() // names every value outside its tolerance
package check
