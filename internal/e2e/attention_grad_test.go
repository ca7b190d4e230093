package e2e

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/codegen/kernel"
	"github.com/vkc-go/vkc/frontend"
	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/passes"
)

// layersModel is the loss of layers with attention and a gated matmul over [T, 4 heads of 16], and the weights.
type layersModel struct {
	layers, tokens int
	attend         func(q, k, v frontend.Tensor) frontend.Tensor
	layer          func(f func(x frontend.Tensor) frontend.Tensor, x frontend.Tensor) frontend.Tensor
}

const modelHeads, modelHeadDim = 4, 16

// gradients is the graph of the gradients of the model's loss.
func (m layersModel) gradients(t *testing.T) *ir.Graph {
	t.Helper()
	const width = modelHeads * modelHeadDim
	return build(t, func(b *frontend.Builder) {
		var params []frontend.Tensor
		weight := func(dims ...any) frontend.Tensor {
			w := b.Input("w"+string(rune('a'+len(params))), ir.F32, dims...)
			params = append(params, w)
			return w
		}
		x, norm := b.Input("x", ir.F32, m.tokens, width), b.Full(ir.F32, 1, width)
		heads := func(x frontend.Tensor, n int) frontend.Tensor {
			return x.Reshape(m.tokens, n, modelHeadDim).SwapAxes(0, 1)
		}
		for range m.layers {
			wq, wk, wv, wo := weight(width, width), weight(width/2, width), weight(width/2, width), weight(width, width)
			up, down := weight(4*width, width), weight(width, 4*width)
			x = m.layer(func(x frontend.Tensor) frontend.Tensor {
				n := x.RMSNorm(norm, 1e-5)
				y := m.attend(heads(n.MatMulT(wq), modelHeads), heads(n.MatMulT(wk), modelHeads/2),
					heads(n.MatMulT(wv), modelHeads/2))
				x = x.Add(y.SwapAxes(0, 1).Reshape(m.tokens, width).MatMulT(wo))
				return x.Add(x.RMSNorm(norm, 1e-5).MatMulT(up).Silu().MatMulT(down))
			}, x)
		}
		for i, g := range frontend.Grad(x.Sqr().Mean(), params...) {
			b.Output("grad of "+params[i].Node().Name(), g)
		}
	})
}

func plainLayer(f func(x frontend.Tensor) frontend.Tensor, x frontend.Tensor) frontend.Tensor {
	return f(x)
}

func causalAttention(q, k, v frontend.Tensor) frontend.Tensor {
	return q.Attention(k, v, frontend.Causal())
}

// spelledAttention is causalAttention composed of basic ops. Its gradients keep the attention weights.
func spelledAttention(q, k, v frontend.Tensor) frontend.Tensor {
	b, t := q.Builder(), q.Dim(-2)
	groups, perGroup := k.Dim(-3), q.Dim(-3).Static()/k.Dim(-3).Static()
	share := func(x frontend.Tensor) frontend.Tensor {
		return x.Unsqueeze(1).Broadcast(groups, perGroup, t, x.Dim(-1)).Reshape(q.Dim(0), t, x.Dim(-1))
	}
	seen := b.Iota(ir.I32, 1, 1, t).Le(b.Iota(ir.I32, 0, t, 1))
	scores := q.MatMulT(share(k)).MulScalar(1 / math.Sqrt(modelHeadDim))
	return seen.Where(scores, scores.Lit(math.Inf(-1))).Softmax(-1).MatMul(share(v))
}

// TestAttentionGradientKeepsNoScores: the plan of a model's gradients has no buffer as large as the scores of a head.
// So it needs much less memory than attention composed of basic ops.
func TestAttentionGradientKeepsNoScores(t *testing.T) {
	const tokens = 1024
	arena := map[string]int64{}
	for name, attend := range map[string]func(q, k, v frontend.Tensor) frontend.Tensor{
		"attention": causalAttention, "by ops": spelledAttention,
	} {
		g := layersModel{2, tokens, attend, plainLayer}.gradients(t)
		s, err := passes.Run(g, passes.Options{})
		if err != nil {
			t.Fatal(err)
		}
		largest, attentions := int64(0), 0
		for _, buf := range s.Program.Buffers {
			if buf.Kind == kernel.BufTemp {
				largest = max(largest, buf.Bytes)
			}
		}
		for _, k := range s.Kernels {
			if k.Family == kernel.FamilyAttention {
				attentions++
			}
		}
		arena[name] = s.Program.ArenaBytes
		t.Logf("%s: %d kernels, %d of attention; %.1f MiB planned, the largest buffer %.1f MiB", name, len(s.Kernels),
			attentions, float64(s.Program.ArenaBytes)/(1<<20), float64(largest)/(1<<20))
		if name == "attention" && (largest >= tokens*tokens*4 || attentions != 10) {
			t.Errorf("the largest buffer has %d bytes, and there are %d kernels of attention: want no scores, and "+
				"for each layer the forward one, its sums, and one each for q, k and v", largest, attentions)
		}
	}
	if arena["attention"]*2 > arena["by ops"] {
		t.Errorf("%d bytes planned, against %d of an attention by ops", arena["attention"], arena["by ops"])
	}
}

// TestAttentionGradientOnDevice: gradients of attention with every option that affects scores, through the projection
// of its queries, match the reference.
func TestAttentionGradientOnDevice(t *testing.T) {
	dev := openDevice(t)
	checkRun(t, dev, build(t, func(b *frontend.Builder) {
		w, k := b.Input("w", ir.F32, 64, 24), b.Input("k", ir.F32, 2, 2, 33, 16)
		v, sinks := b.Input("v", ir.F32, 2, 2, 33, 8), b.Input("sinks", ir.F32, 4)
		q := b.Input("x", ir.F32, 2, 21, 24).MatMulT(w).Reshape(2, 21, 4, 16).SwapAxes(1, 2)
		y := q.Attention(k, v, frontend.Causal(), frontend.Window(9), frontend.Softcap(2), frontend.Sinks(sinks),
			frontend.Mask(b.Input("seen", ir.I32, 21, 33)))
		for i, g := range frontend.Grad(y.Sqr().Mean(), w, k, v, sinks) {
			b.Output([]string{"dw", "dk", "dv", "dsinks"}[i], g)
		}
	}), once)
}
