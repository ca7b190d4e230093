// Package check compares the results of a device with the reference.
//
//	c, err := check.New(g, weights)
//	report, err := c.Check(ctx, exe, in, nil, result.Outputs)
//	err = report.Err() // names every value outside its tolerance
package check
