package fast

// A scan (see type scan) computes the time steps of a chunk together, by matmuls. Let D[t] be the product of the
// chunk's decays up to time step t, S the state before the chunk, and r[t] = S[t-1] a[t] the reads that correct the
// state. Then
//
//	S[t] = (S + the sum over s <= t of r[s] (b[s]/D[s])ᵀ + v[s] (k[s]/D[s])ᵀ) diag(D[t])
//
// So reads and results are sums of S and of earlier r and v, with weights that are dot products of keys:
//
//	r[t] = S a'[t] + the sum over s < t of r[s] (b'[s]·a'[t]) + v[s] (k'[s]·a'[t])
//	y[t] = S q'[t] + the sum over s <= t of r[s] (b'[s]·q'[t]) + v[s] (k'[s]·q'[t])
//
// where a'[t] = a[t]*D[t-1], q'[t] = q[t]*D[t], b'[s] = b[s]/D[s] and k'[s] = k[s]/D[s]. See Dao and Gu 2024
// (arXiv:2405.21060, section 6), and Yang et al. 2024 (arXiv:2412.06464, section 3) for corrections. Each r depends on
// the earlier ones only, so they are computed one after the other.

// The limits of chunks (M-cpu-recurrences).
const (
	// The maximum number of time steps of a chunk. In longer chunks, the dot products of keys take longer. In shorter
	// ones, each read of the state serves fewer time steps.
	mostChunkTimes = 32
	// The factors D stay between 1/mostDecay and mostDecay, so that neither D nor 1/D overflows.
	mostDecay = 1e17
	// The minimum number of rows of the state. The dot products of keys take longer than fewer rows.
	leastChunkRows = 8
)

// chunkRoom is the memory of a worker that computes chunks.
type chunkRoom struct {
	state   []float32 // of a head, if it is no result
	factors []float32 // of the first time step of the chunk, for each key
	most    int       // number of time steps of a chunk, or 0 for no chunks
	terms   int       // number of terms that a time step adds to the state: 1, or 2 with a correction

	each, up, down []float32 // for each time step, of the scan's width: its decays, D and 1/D
	queries, reads []float32 // q' and a'
	keys           []float32 // for each time step, b' if there is a correction, and k'; then a row of the state
	values         []float32 // for each row of keys, r or v
	columns        []float32 // values, transposed
	weights        []float32 // dot products of queries or reads with keys
	sum            []float32 // a row of values
}

// newChunkRoom returns the memory that a worker needs for a scan. It has room for chunks only if these pay.
func newChunkRoom(s *scan) *chunkRoom {
	c := &chunkRoom{factors: make([]float32, s.keys), terms: 1}
	if !s.wantState {
		c.state = make([]float32, s.values*s.keys)
	}
	if s.values < leastChunkRows {
		return c
	}
	if s.a.groups > 0 {
		c.terms = 2
	}
	c.most = min(s.times, mostChunkTimes)
	n, rows := c.most, c.terms*c.most
	c.each, c.up, c.down = make([]float32, n*s.width()), make([]float32, n*s.width()), make([]float32, n*s.width())
	c.queries, c.reads = make([]float32, n*s.keys), make([]float32, n*s.keys)
	c.keys, c.values = make([]float32, (rows+1)*s.keys), make([]float32, rows*s.values)
	c.columns, c.weights = make([]float32, (rows+1)*s.values), make([]float32, n*rows)
	c.sum = make([]float32, s.values)
	return c
}

// decays computes the decays of up to n time steps from time step t on: each by itself, and their running products. It
// returns how many of these time steps a chunk can have. If that is 0, it sets c.factors to the decays of time step t.
func (c *chunkRoom) decays(s *scan, t, n, head int) int {
	w := s.width()
	for i := range n {
		each, up := c.each[i*w:(i+1)*w], c.up[i*w:(i+1)*w]
		s.decays(each, (t+i)*s.heads+head, head)
		if copy(up, each); i > 0 {
			primitives["*"].apply(up, c.up[(i-1)*w:i*w], each, each)
		}
		for _, x := range up {
			if !(x >= 1/mostDecay && x <= mostDecay) { // also if it is NaN
				n = i
			}
		}
		if n == i {
			break
		}
	}
	if n == 0 {
		s.decays(c.factors, t*s.heads+head, head)
		return 0
	}
	for i, x := range c.up[:n*w] {
		c.down[i] = 1 / x
	}
	return n
}

// chunk computes n time steps of a head from time step t on. Method decays has set the chunk's decays. It updates the
// head's state, own, unless neither later time steps nor the result need it.
func (c *chunkRoom) chunk(s *scan, own []float32, t, n, head int) {
	c.operands(s, t, n, head)
	rows := c.terms * n
	keys := c.keys[:rows*s.keys]
	if c.terms > 1 { // the reads r of a correction, each from the earlier ones
		multiply(c.values, c.terms*s.values, c.reads[:n*s.keys], own, n, s.values, s.keys)
		multiply(c.weights, rows, c.reads[:n*s.keys], keys, n, rows, s.keys)
		for i := 1; i < n; i++ {
			before := c.terms * i
			c.addSum(c.values[before*s.values:][:s.values], c.weights[i*rows:][:before])
		}
	}
	if !s.wantState {
		out, stride := s.out[(t*s.heads+head)*s.values:], s.heads*s.values
		multiply(out, stride, c.queries[:n*s.keys], own, n, s.values, s.keys)
		multiply(c.weights, rows, c.queries[:n*s.keys], keys, n, rows, s.keys)
		for i := range n {
			c.addSum(out[i*stride:][:s.values], c.weights[i*rows:][:c.terms*(i+1)])
		}
		if (t+n)%s.times == 0 { // the last chunk
			return
		}
	}
	c.update(s, own, n)
}

// operands sets queries, reads, keys and values for n time steps from time step t on. It leaves out the rows of values
// that are r[t], which method chunk computes.
func (c *chunkRoom) operands(s *scan, t, n, head int) {
	w := s.width()
	for i := range n {
		time := t + i
		at, row := time*s.heads+head, c.terms*(i+1)-1 // row is the last row of keys and values for this time step
		up, down := c.up[i*w:(i+1)*w], c.down[i*w:(i+1)*w]
		if !s.wantState {
			scaleRow(c.queries[i*s.keys:(i+1)*s.keys], s.q.at(time, head, s.heads), up)
		}
		scaleRow(c.keys[row*s.keys:(row+1)*s.keys], s.k.at(time, head, s.heads), down)
		value, from := c.values[row*s.values:(row+1)*s.values], s.v[at*s.values:(at+1)*s.values]
		if copy(value, from); s.scale != nil {
			scaleRow(value, from, s.scale[at:at+1])
		}
		if c.terms == 1 {
			continue
		}
		scaleRow(c.keys[(row-1)*s.keys:row*s.keys], s.b.at(time, head, s.heads), down)
		a, reads := s.a.at(time, head, s.heads), c.reads[i*s.keys:(i+1)*s.keys]
		if i == 0 {
			copy(reads, a) // the first time step reads the state without a decay
		} else {
			scaleRow(reads, a, c.up[(i-1)*w:i*w])
		}
	}
}

// update sets the state own to the state after n time steps.
func (c *chunkRoom) update(s *scan, own []float32, n int) {
	w, rows := s.width(), c.terms*n
	last := c.factors // D of the last time step, for each key
	copy(last, c.up[(n-1)*w:n*w])
	if w == 1 {
		fill(last, last[0])
	}
	multiplied := primitives["*"]
	for i := range rows {
		key := c.keys[i*s.keys : (i+1)*s.keys]
		multiplied.apply(key, key, last, last)
	}
	columns, key := c.columns[:(rows+1)*s.values], c.keys[rows*s.keys:(rows+1)*s.keys]
	moveTile(columns, c.values, rows+1, s.values, s.values, rows)
	for j := range s.values { // the state is the last term of the sum
		row, weights := own[j*s.keys:(j+1)*s.keys], columns[j*(rows+1):(j+1)*(rows+1)]
		weights[rows] = 1
		multiplied.apply(key, row, last, last)
		weigh(row, weights, c.keys)
	}
}

// addSum adds the sum of the first rows of values, each multiplied by its weight, to out.
func (c *chunkRoom) addSum(out, weights []float32) {
	sum := c.sum[:len(out)]
	weigh(sum, weights, c.values)
	primitives["+"].apply(out, out, sum, sum)
}

// scaleRow sets each element of out to the element of x times its factor. A single factor is the factor of all
// elements. out and x must be different memory.
func scaleRow(out, x, factors []float32) {
	if len(factors) == 1 {
		weigh(out, factors, x)
	} else {
		primitives["*"].apply(out, x, factors, factors)
	}
}
