package onnx

var lossOps = table{
	"NegativeLogLikelihoodLoss": tensorOp(func(c *call) tensor { return c.likelihood(c.x(0)) }),
	"SoftmaxCrossEntropyLoss":   manyOp(crossEntropy),
}

func crossEntropy(c *call) []*value {
	log := c.x(0).LogSoftmax(1)
	return several(c.likelihood(log), log)
}

// likelihood returns the negative log-likelihood loss of x [N, C, …], log-probabilities, for the classes [N, …] of
// input 1: minus the element of x at each class, weighted and reduced as the attributes and input 2 say.
func (c *call) likelihood(x tensor) tensor {
	class := c.x(1)
	if x.Rank() < 2 {
		c.fail("of %s, want [N, C, …]", x)
	}
	at := class.Max(class.Lit(0)).Unsqueeze(1) // an ignored class may be below 0
	loss := x.Gather(1, at).Squeeze(1).Neg()
	weight := c.b.Full(x.DType(), 1, class.Shape())
	if c.has(2) {
		w := c.x(2)
		weight = w.IndexSelect(0, class.Max(class.Lit(0)).Reshape(-1)).Reshape(class.Shape())
	}
	if c.hasAttr("ignore_index") {
		ignored := class.Eq(class.Lit(float64(c.intAttr("ignore_index", 0))))
		weight = ignored.Where(weight.Lit(0), weight)
	}
	// A weight of 0 hides even an infinite loss.
	loss = weight.Eq(weight.Lit(0)).Where(loss.Lit(0), loss.Mul(weight))
	switch mode := c.textAttr("reduction", "mean"); mode {
	case "none":
		return loss
	case "sum":
		return loss.Sum()
	case "mean":
		return loss.Sum().Div(weight.Sum())
	default:
		c.fail("reduction %q is not supported", mode)
	}
	return loss
}
