// Package check compares what a device computes with the reference.
//
//	c, err := check.New(g, weights)
//	report, err := c.Check(ctx, exe, in, nil, result.Outputs)
//	err = report.Err() // names every value that is past its tolerance
package check
