// Package words has comments in plain English.
package words

// A model that foretells a text. // want `a comment says "\w+": write plain English \(predicts; measures perplexity\)`
const A = "no string foretells anything" // want `a string says "\w+"`

// b is easel, not a verb.
const b = 1 // it Eases the load // want `a comment says "\w+"`
