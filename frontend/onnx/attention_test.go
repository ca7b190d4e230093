package onnx_test

import (
	"math"
	"testing"

	"github.com/vkc-go/vkc/frontend/onnx"
	"github.com/vkc-go/vkc/ir"
)

// wave is numbers between -1 and 1.
func wave(n int, phase float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = math.Sin(float64(i*i)*0.7 + phase)
	}
	return out
}

// attentionCase is an Attention with 2 sequences, 4 query heads and 2 key heads, and with the keys s that query t sees.
type attentionCase struct {
	length, keys int // of queries and of all keys
	past         int // number of cached keys
	mask         msg
	maskData     *ir.Data
	filled       []int64
	attributes   []msg
	seen         func(b, t, s int) bool
	bias         func(t, s int) float64
	softcap      float64
}

// TestAttention compares with the definition, written out: causal, with caches, windows and masks, and queries that
// see no key.
func TestAttention(t *testing.T) {
	all := func(b, t, s int) bool { return true }
	low := math.Inf(-1)
	bias := []float64{0, 1, low, 2, 0, low, low, 0, low, low, low, low}
	for name, c := range map[string]attentionCase{
		"plain": {length: 3, keys: 5, seen: all, attributes: []msg{floatAttr("scale", 0.3)}},
		"causal": {length: 4, keys: 4, attributes: []msg{intAttr("is_causal", 1)},
			seen: func(b, t, s int) bool { return s <= t }},
		"causal, more keys": {length: 2, keys: 4, attributes: []msg{intAttr("is_causal", 1)},
			seen: func(b, t, s int) bool { return s <= t }},
		"cache": {length: 2, keys: 5, past: 3, attributes: []msg{intAttr("is_causal", 1), floatAttr("softcap", 2)},
			seen: func(b, t, s int) bool { return s <= t+3 }, softcap: 2},
		"cache and window": {length: 2, keys: 5, past: 3,
			attributes: []msg{intAttr("is_causal", 1), intAttr("left_window_size", 1)},
			seen:       func(b, t, s int) bool { return s <= t+3 && s >= t+2 }},
		"windows": {length: 4, keys: 6,
			attributes: []msg{intAttr("left_window_size", 2), intAttr("right_window_size", 1)},
			seen:       func(b, t, s int) bool { return s >= t-2 && s <= t+1 }},
		"filled caches": {length: 2, keys: 5, filled: []int64{4, 1}, attributes: []msg{intAttr("is_causal", 1)},
			seen: func(b, t, s int) bool { n := []int{4, 1}[b]; return s < n && s <= t+n-2 }},
		"bools, shorter": {length: 2, keys: 4, mask: port("mask", boolean, 2, 3),
			maskData: &ir.Data{DType: ir.Bool, Dims: []int{2, 3}, Bytes: []byte{1, 0, 1, 0, 0, 0}},
			seen:     func(b, t, s int) bool { return t == 0 && (s == 0 || s == 2) }},
		"floats and causal": {length: 3, keys: 4, mask: port("mask", float, 3, 4), maskData: f32(t, bias, 3, 4),
			attributes: []msg{intAttr("is_causal", 1)}, bias: func(t, s int) float64 { return bias[4*t+s] },
			seen: func(b, t, s int) bool { return s <= t && !math.IsInf(bias[4*t+s], -1) }},
	} {
		for _, flat := range []bool{false, true} {
			t.Run(name, func(t *testing.T) { c.check(t, flat) })
		}
	}
}

func (c attentionCase) check(t *testing.T, flat bool) {
	const batch, heads, groups, size, width = 2, 4, 2, 3, 2
	fresh := c.keys - c.past
	q, k, v := wave(batch*heads*c.length*size, 1), wave(batch*groups*c.keys*size, 2), wave(batch*groups*c.keys*width, 3)
	// part is the keys from one on of [batch, groups, keys, n].
	part := func(x []float64, n, from, to int) []float64 {
		var out []float64
		for i := range batch * groups {
			out = append(out, x[(i*c.keys+from)*n:(i*c.keys+to)*n]...)
		}
		return out
	}
	in := map[string]*ir.Data{}
	var ports []msg
	give := func(name string, x []float64, heads, length, n int) {
		if flat {
			ports = append(ports, port(name, float, batch, length, heads*n))
			in[name] = f32(t, swapped(x, batch, heads, length, n), batch, length, heads*n)
		} else {
			ports = append(ports, port(name, float, batch, heads, length, n))
			in[name] = f32(t, x, batch, heads, length, n)
		}
	}
	give("q", q, heads, c.length, size)
	give("k", part(k, size, c.past, c.keys), groups, fresh, size)
	give("v", part(v, width, c.past, c.keys), groups, fresh, width)
	args := []string{"q", "k", "v", "", "", "", ""}
	if c.mask != nil {
		args[3], ports, in["mask"] = "mask", append(ports, c.mask), c.maskData
	}
	if c.past > 0 {
		args[4], args[5] = "pk", "pv"
		ports = append(ports, port("pk", float, batch, groups, c.past, size))
		ports = append(ports, port("pv", float, batch, groups, c.past, width))
		in["pk"] = f32(t, part(k, size, 0, c.past), batch, groups, c.past, size)
		in["pv"] = f32(t, part(v, width, 0, c.past), batch, groups, c.past, width)
	}
	if c.filled != nil {
		args[6], ports, in["n"] = "n", append(ports, port("n", int64s, batch)), i64(t, c.filled...)
	}
	attributes := append([]msg{intAttr("qk_matmul_output_mode", 3)}, c.attributes...)
	if flat {
		attributes = append(attributes, intAttr("q_num_heads", heads), intAttr("kv_num_heads", groups))
	}
	results := names("y", "keys", "values", "weights")
	f := built(t, model(25, graph(inputs(ports...), nodes(node("Attention", args, results, attributes...)),
		outputs(results...))), onnx.Options{})
	out := run(t, f, in)

	scale := 1 / math.Sqrt(size)
	for _, a := range c.attributes {
		if string(a) == string(floatAttr("scale", 0.3)) {
			scale = 0.3
		}
	}
	want, weights := make([]float64, batch*heads*c.length*width), make([]float64, batch*heads*c.length*c.keys)
	for row := range batch * heads * c.length {
		b, i := row/(heads*c.length), row%c.length
		group := row / c.length * groups / heads // of all sequences
		w, sum := weights[row*c.keys:(row+1)*c.keys], 0.0
		for s := range w {
			if !c.seen(b, i, s) {
				continue
			}
			score := 0.0
			for d := range size {
				score += q[row*size+d] * k[(group*c.keys+s)*size+d] * scale
			}
			if c.softcap > 0 {
				score = c.softcap * math.Tanh(score/c.softcap)
			}
			if c.bias != nil {
				score += c.bias(i, s)
			}
			w[s] = math.Exp(score)
			sum += w[s]
		}
		for s := range w {
			if w[s] > 0 {
				w[s] /= sum
			}
			for e := range width {
				want[row*width+e] += w[s] * v[(group*c.keys+s)*width+e]
			}
		}
	}
	y := f32(t, want, batch, heads, c.length, width)
	if flat {
		y = f32(t, swapped(want, batch, heads, c.length, width), batch, c.length, heads*width)
	}
	near(t, "y", out["y"], y)
	near(t, "weights", out["weights"], f32(t, weights, batch, heads, c.length, c.keys))
	near(t, "keys", out["keys"], f32(t, k, batch, groups, c.keys, size))
	near(t, "values", out["values"], f32(t, v, batch, groups, c.keys, width))
}

func near(t *testing.T, what string, got, want *ir.Data) {
	t.Helper()
	if err := onnx.Compare(got, want, 1e-5, 1e-6); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// swapped is [a, b, c, n] with its middle axes swapped.
func swapped(x []float64, a, b, c, n int) []float64 {
	var out []float64
	for i := range a {
		for k := range c {
			for j := range b {
				out = append(out, x[((i*b+j)*c+k)*n:][:n]...)
			}
		}
	}
	return out
}

// TestLinearAttention compares with the recurrence, written out, of 2 heads of keys that serve 4 of queries.
func TestLinearAttention(t *testing.T) {
	const steps, heads, groups, d, e = 3, 4, 2, 3, 2
	q, k, v := wave(steps*heads*d, 1), wave(steps*groups*d, 2), wave(steps*groups*e, 3)
	past, decay, beta := wave(groups*d*e, 4), wave(steps*groups*d, 5), wave(steps*groups, 6)
	for rule, with := range map[string]struct{ gated, delta bool }{
		"linear": {}, "gated": {gated: true}, "delta": {delta: true}, "gated_delta": {true, true},
	} {
		args := []string{"q", "k", "v", "past", "", ""}
		if with.gated {
			args[4] = "decay"
		}
		if with.delta {
			args[5] = "beta"
		}
		f := built(t, model(27, graph(inputs(port("q", float, 1, "T", heads*d), port("k", float, 1, "T", groups*d),
			port("v", float, 1, "T", groups*e), port("past", float, 1, groups, d, e),
			port("decay", float, 1, "T", groups*d), port("beta", float, 1, "T", groups)),
			nodes(node("LinearAttention", args, names("y", "state"), textAttr("update_rule", rule),
				intAttr("q_num_heads", heads), intAttr("kv_num_heads", groups))), outputs("y", "state"))),
			onnx.Options{})
		out := run(t, f, map[string]*ir.Data{"q": f32(t, q, 1, steps, heads*d), "k": f32(t, k, 1, steps, groups*d),
			"v": f32(t, v, 1, steps, groups*e), "past": f32(t, past, 1, groups, d, e),
			"decay": f32(t, decay, 1, steps, groups*d), "beta": f32(t, beta, 1, steps, groups)})
		var want []float64
		state := append([]float64{}, past...)
		for step := range steps {
			for g := range groups {
				s, key := state[g*d*e:(g+1)*d*e], k[(step*groups+g)*d:][:d]
				for i := range s {
					if with.gated {
						s[i] *= math.Exp(decay[(step*groups+g)*d+i/e])
					}
				}
				for m := range e {
					val := v[(step*groups+g)*e+m]
					if with.delta {
						for i := range d {
							val -= s[i*e+m] * key[i]
						}
						val *= beta[step*groups+g]
					}
					for i := range d {
						s[i*e+m] += key[i] * val
					}
				}
			}
			for h := range heads {
				for m := range e {
					sum := 0.0
					for i := range d {
						sum += q[(step*heads+h)*d+i] * state[(h*groups/heads*d+i)*e+m] / math.Sqrt(d)
					}
					want = append(want, sum)
				}
			}
		}
		near(t, rule, out["y"], f32(t, want, 1, steps, heads*e))
		near(t, rule+", state", out["state"], f32(t, state, 1, groups, d, e))
	}
}

// TestCausalConv convolves two channels, with and without a past state.
func TestCausalConv(t *testing.T) {
	build := func(past string, length any) *onnx.File {
		return built(t, model(27, graph(inputs(port("x", float, 1, 2, length), port("past", float, 1, 2, 2)),
			weights(floats("w", []float32{1, 10, 100, 1, 0, -1}, 2, 1, 3), floats("b", []float32{0, 5}, 2)),
			nodes(node("CausalConvWithState", names("x", "w", "b", past), names("y", "state"))),
			outputs("y", "state"))), onnx.Options{})
	}
	in := map[string]*ir.Data{"x": f32(t, []float64{1, 2, 3, 4, 5, 6}, 1, 2, 3),
		"past": f32(t, []float64{7, 8, 9, 6}, 1, 2, 2)}
	out := run(t, build("", 3), in)
	near(t, "y", out["y"], f32(t, []float64{100, 210, 321, 1, 0, 3}, 1, 2, 3))
	near(t, "state", out["state"], f32(t, []float64{2, 3, 5, 6}, 1, 2, 2))
	out = run(t, build("past", "N"), in)
	near(t, "y", out["y"], f32(t, []float64{187, 218, 321, 10, 6, 3}, 1, 2, 3))
	near(t, "state", out["state"], f32(t, []float64{2, 3, 5, 6}, 1, 2, 2))
	in["x"] = f32(t, []float64{1, 4}, 1, 2, 1) // shorter than the kept past
	near(t, "state", run(t, build("past", "N"), in)["state"], f32(t, []float64{8, 1, 6, 4}, 1, 2, 2))
}

// TestTensorScatter writes a row into the cache of each of two sequences, at a place of its own.
func TestTensorScatter(t *testing.T) {
	for mode, want := range map[string][]float64{
		"linear": {0, 1, 10, 11, 4, 14, 15, 7}, "circular": {0, 1, 10, 11, 15, 5, 6, 14},
	} {
		f := built(t, model(24, graph(inputs(port("x", float, 2, 4, 1), port("u", float, 2, 2, 1),
			port("at", int64s, 2)),
			nodes(node("TensorScatter", names("x", "u", "at"), names("y"), textAttr("mode", mode))), outputs("y"))),
			onnx.Options{})
		at := i64(t, 2, 1)
		if mode == "circular" {
			at = i64(t, 2, 3)
		}
		near(t, mode, run(t, f, map[string]*ir.Data{"x": f32(t, countUp(8), 2, 4, 1), "at": at,
			"u": f32(t, []float64{10, 11, 14, 15}, 2, 2, 1)})["y"], f32(t, want, 2, 4, 1))
	}
}

// TestSwiGLU multiplies by swish, x/(1+exp(-2x)).
func TestSwiGLU(t *testing.T) {
	f := built(t, model(28, graph(inputs(port("a", float, 2), port("b", float, 2)),
		nodes(node("SwiGLU", names("a", "b"), names("y"), floatAttr("alpha", 2))), outputs("y"))), onnx.Options{})
	out := run(t, f, map[string]*ir.Data{"a": f32(t, []float64{1, -1}, 2), "b": f32(t, []float64{3, 5}, 2)})
	near(t, "y", out["y"], f32(t, []float64{3 / (1 + math.Exp(-2)), -5 / (1 + math.Exp(2))}, 2))
}
