package frontend

import (
	"errors"
	"fmt"

	"github.com/vkc-go/vkc/ir"
)

// CrossEntropy returns the losses of a classifier. t has the logits, [..., classes], and ids the right classes,
// integers [...]. A loss is -log softmax(logits)[id], in f32 or wider. The losses have the shape of ids.
//
// An id outside of 0 to classes-1, such as PyTorch's -100, is ignored: its loss and its gradient are 0, and its element
// of counted, bools [...], is false. The mean over the other ids is losses.Sum() divided by the number of true elements
// in counted.
//
// The gradient, (softmax(logits) - onehot(ids))*g, is fused into its users; no one-hot tensor is materialized.
func (t Tensor) CrossEntropy(ids Tensor) (losses, counted Tensor) {
	const op = "cross_entropy"
	t.must(op)
	ids.must(op)
	if t.Rank() == 0 || !t.Shape()[:t.Rank()-1].Equal(ids.Shape()) {
		fail(op, errors.New("want logits [..., classes] and ids [...]"), t, ids)
	}
	if !t.DType().IsFloat() || ids.DType().IsFloat() || ids.DType() == ir.Bool {
		fail(op, fmt.Errorf("the logits are %s and the ids %s: want floats and integers", t.DType(), ids.DType()),
			t, ids)
	}
	x := t.wide()
	at, inside := ids.clampIndices(t.Dim(-1))
	total := x.LogSumExp(-1)
	picked := x.Gather(-1, at.Unsqueeze(-1)).Squeeze(-1)
	losses = inside.Where(total.Sub(picked), total.Lit(0))
	// The gradient is given in closed form, because the gradient of gather would be a scatter.
	t.b.opaque(losses, []Tensor{t}, first(func(c GradCall) Tensor {
		g := inside.Where(c.Grad, c.Grad.Lit(0)).Unsqueeze(-1)
		x := c.Args[0].wide()
		right := x.b.Iota(at.DType(), 0, x.Dim(-1)).Eq(at.Unsqueeze(-1)).Cast(x.DType())
		return x.Sub(total.Unsqueeze(-1)).Exp().Sub(right).Mul(g)
	}))
	return losses, inside
}
