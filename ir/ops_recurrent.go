package ir

import (
	"fmt"
	"slices"
)

// MaxStateWidth is the largest innermost extent of the state of a scan: devices keep a row of it in registers.
const MaxStateWidth = 1024

// init adds the rows of the recurrences to the op table.
func init() {
	of := []AttrInfo{{Name: "of", Kind: AttrString, Default: "y", Enum: []string{"y", "state"},
		Doc: "the result: y, or the state after the last time step"}}
	args := func(names ...string) []ArgInfo {
		list := make([]ArgInfo, len(names))
		for i, name := range names {
			list[i] = ArgInfo{Name: name}
		}
		return list
	}
	sums := Tolerance{Eps: 512, Abs: 1e-5, Sum: true}
	rows(
		OpInfo{Op: OpCausalConv1D, Name: "causal_conv1d", Class: ClassRecurrent, Args: args("x", "w", "state"),
			Attrs: of, Infer: inferCausalConv1D, Tol: Tolerance{Eps: 64, Abs: 1e-5, Sum: true},
			Doc: "Short convolution of each channel along time (Gu and Dao 2023, Mamba, section 3.4). y[t, c] = the sum over k of w[c, k] * z[t+k, c]. z is state[K-1, C] followed by x[T, C], so that no result depends on later time steps. The state after the last time step is the last K-1 rows of z. x is [..., T, C], w is [C, K], and state is [..., K-1, C]."},
		OpInfo{Op: OpSSMScan, Name: "ssm_scan", Class: ClassRecurrent, Args: args("x", "dt", "a", "b", "c", "state"),
			Attrs: of, Infer: inferSSMScan, Tol: sums,
			Doc: "Selective scan of a state space model. For each time step t and head h, S = exp(dt[t, h] * a[h]) * S + dt[t, h] * x[t, h] b[t, g]ᵀ, and y[t, h] = S c[t, g]. S is state[h], [P, N]. x is [..., T, H, P], dt [..., T, H], b and c [..., T, G, N]. H is a multiple of G: head h uses row g = floor(h*G/H). If a is [H, 1], a head has one decay (Dao and Gu 2024, Mamba-2, section 6). If a is [H, N], each element of a row of S has its own decay. With P = 1 and a head for each channel, this is Mamba (Gu and Dao 2023, section 3.2)."},
		OpInfo{Op: OpDeltaRule, Name: "delta_rule", Class: ClassRecurrent,
			Args: append(args("q", "k", "v", "decay", "state"), ArgInfo{Name: "a", Optional: true},
				ArgInfo{Name: "b", Optional: true}), Attrs: of, Infer: inferDeltaRule, Tol: sums,
			Doc: "Linear attention with a state that decays and is corrected. At each time step the state S of a head becomes S diag(exp(decay)) + (S a) bᵀ + v kᵀ, and y = S q with the new S. S is state[h], [V, K]. q, k, a and b are [..., T, G, K], and each may have a G of its own. H is a multiple of G: head h uses row floor(h*G/H). v is [..., T, H, V]. decay is a logarithm. It is [..., T, H, K], or [..., T, H, 1] if a head has one decay. (S a) bᵀ is the correction; without a and b there is none. The gated delta rule (Yang et al. 2024, Gated Delta Networks, section 3.1) has a = -exp(decay) k, b = beta k and v = beta v. RWKV-7 (Peng et al. 2025, section 4) has a = -κ and b = κ times its rate."},
	)
}

// wantSameFloats returns an error unless all arguments have one float dtype.
func (c *Call) wantSameFloats() error {
	if err := c.wantKinds(0, KindFloat); err != nil {
		return err
	}
	for i := 1; i < len(c.Args); i++ {
		if err := c.wantSame(0, i); err != nil {
			return err
		}
	}
	return nil
}

// wantShape returns an error unless argument i has that shape.
func (c *Call) wantShape(i int, want ...Dim) error {
	if s := c.Shape(i); !s.Equal(want) {
		return fmt.Errorf("%s is %s, want %s", c.arg(i), s, Shape(want))
	}
	return nil
}

// ofResult returns y or the state's type, as attribute of says.
func (c *Call) ofResult(y, state Shape) (Type, error) {
	if c.Attrs.String_("of") == "state" {
		y = state
	}
	return Type{c.DType(0), y}, nil
}

// inferCausalConv1D is the rule of causal_conv1d.
func inferCausalConv1D(c *Call) (Type, error) {
	if err := c.wantSameFloats(); err != nil {
		return Type{}, err
	}
	x, w := c.Shape(0), c.Shape(1)
	if len(x) < 2 || len(w) != 2 || w[0] != x[len(x)-1] {
		return Type{}, fmt.Errorf("%s is %s and %s is %s: want x [..., T, C] and w [C, K]", c.arg(0), x, c.arg(1), w)
	}
	if k := w[1]; !w.IsStatic() || k.Add < 1 || k.Add > maxWindow {
		return Type{}, fmt.Errorf("%s is %s: want fixed extents, and 1 to %d numbers per channel", c.arg(1), w,
			maxWindow)
	}
	state := append(slices.Clone(x[:len(x)-2]), w[1].Plus(-1), w[0])
	if err := c.wantShape(2, state...); err != nil {
		return Type{}, err
	}
	return c.ofResult(x, state)
}

// scanned checks the arguments that scans have in common: values [..., T, H, V], and the state [..., H, V, K]. It takes
// the indices of these arguments, and returns the shape [..., T], H and K.
func (c *Call) scanned(values, state int) (lead Shape, h, k Dim, err error) {
	if err := c.wantSameFloats(); err != nil {
		return nil, h, k, err
	}
	x, s := c.Shape(values), c.Shape(state)
	n := len(x)
	if n < 3 || len(s) != n || !s[:n-3].Equal(x[:n-3]) || s[n-3] != x[n-2] || s[n-2] != x[n-1] {
		return nil, h, k, fmt.Errorf("%s is %s and %s is %s: want [..., T, H, P] and [..., H, P, N]", c.arg(values), x,
			c.arg(state), s)
	}
	lead, h, k = x[:n-2], x[n-2], s[n-1]
	switch {
	case !s[n-3:].IsStatic():
		err = fmt.Errorf("%s is %s: the extents of a head's state must not be symbolic", c.arg(state), s)
	case h.Add < 1 || x[n-1].Add < 1 || k.Add < 1 || k.Add > MaxStateWidth:
		err = fmt.Errorf("%s is %s: want heads, and rows of 1 to %d elements", c.arg(state), s, MaxStateWidth)
	}
	return lead, h, k, err
}

// wantInGroups returns an error unless argument i is lead[..., T], then G and k, where h is a multiple of G.
func (c *Call) wantInGroups(i int, lead Shape, h, k Dim) error {
	s := c.Shape(i)
	n := len(lead)
	fits := len(s) == n+2 && s[:n].Equal(lead) && s[n+1] == k
	if !fits || !s[n].IsStatic() || s[n].Add < 1 || h.Add%s[n].Add != 0 {
		return fmt.Errorf("%s is %s, want %s for a G that %s is a multiple of", c.arg(i), s,
			Shape(append(slices.Clone(lead), Dim{Sym: "G", Mul: 1}, k)), h)
	}
	return nil
}

// inferSSMScan is the rule of ssm_scan.
func inferSSMScan(c *Call) (Type, error) {
	lead, h, n, err := c.scanned(0, 5) // x and state
	if err != nil {
		return Type{}, err
	}
	if err := c.wantShape(1, append(slices.Clone(lead), h)...); err != nil {
		return Type{}, err
	}
	if a := c.Shape(2); !a.Equal(Shape{h, n}) && !a.Equal(Shape{h, D(1)}) {
		return Type{}, fmt.Errorf("%s is %s, want %s or %s", c.arg(2), a, Shape{h, n}, Shape{h, D(1)})
	}
	for i := 3; i < 5; i++ { // b and c
		if err := c.wantInGroups(i, lead, h, n); err != nil {
			return Type{}, err
		}
	}
	return c.ofResult(c.Shape(0), c.Shape(5))
}

// inferDeltaRule is the rule of delta_rule.
func inferDeltaRule(c *Call) (Type, error) {
	if len(c.Args) == 6 {
		return Type{}, fmt.Errorf("%s goes with b: give both or neither", c.arg(5))
	}
	lead, h, k, err := c.scanned(2, 4) // v and state
	if err != nil {
		return Type{}, err
	}
	inGroups := []int{0, 1} // q and k
	if len(c.Args) > 6 {
		inGroups = append(inGroups, 5, 6) // a and b
	}
	for _, i := range inGroups {
		if err := c.wantInGroups(i, lead, h, k); err != nil {
			return Type{}, err
		}
	}
	each, one := append(slices.Clone(lead), h, k), append(slices.Clone(lead), h, D(1))
	if d := c.Shape(3); !d.Equal(each) && !d.Equal(one) {
		return Type{}, fmt.Errorf("%s is %s, want %s or %s", c.arg(3), d, each, one)
	}
	return c.ofResult(c.Shape(2), c.Shape(4))
}
