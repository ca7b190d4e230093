package onnx

import (
	"math"
	"slices"

	"github.com/vkc-go/vkc/ir"
)

// forest is an ensemble of decision trees, as tables by the number of a node. Leaves are nodes with the highest
// numbers. All rows descend all trees at once, a level in each step, and a leaf leads to itself.
type forest struct {
	c       *call
	feature []int32   // by node: the index of the feature that it compares
	split   []float64 // by node: the number with which it compares the feature
	// By node: the next node if the feature is below, equal to or above the split, or NaN.
	below, equal, above, nan []int32
	roots                    []int32
	leaves, targets          int
	weights                  []float64 // [leaves, targets]
	has                      []bool    // which of the weights are set
}

// Limits of forests.
const (
	maxTreeNodes = 1 << 22
	maxTreeDepth = 4096
	maxLeafSums  = 1 << 26
)

// comparisons has the result of each mode of a node for a feature below, equal to and above the split, and for NaN.
var comparisons = map[string]struct{ below, equal, above, nan bool }{
	"BRANCH_LEQ": {below: true, equal: true},
	"BRANCH_LT":  {below: true},
	"BRANCH_GTE": {equal: true, above: true},
	"BRANCH_GT":  {above: true},
	"BRANCH_EQ":  {equal: true},
	"BRANCH_NEQ": {below: true, above: true, nan: true},
}

// branch sets the next nodes of node i, which compares by the given mode: yes if the comparison is true, and otherwise
// no. If nanYes is set, NaN leads to yes with any mode.
func (f *forest) branch(i int, mode string, yes, no int32, nanYes bool) {
	is, ok := comparisons[mode]
	if !ok {
		f.c.fail("a node has mode %q", mode)
	}
	next := func(is bool) int32 {
		if is {
			return yes
		}
		return no
	}
	f.below[i], f.equal[i], f.above[i] = next(is.below), next(is.equal), next(is.above)
	f.nan[i] = next(is.nan || nanYes)
}

// grow makes the tables of the forest for the given numbers of inner nodes, leaves and targets. Each leaf leads to
// itself. It fails if the forest is too large.
func (f *forest) grow(nodes, leaves, targets int) {
	if nodes+leaves > maxTreeNodes || targets < 1 || leaves*targets > maxLeafSums {
		f.c.fail("it has %d nodes, %d leaves and %d targets: that is too much work", nodes, leaves, targets)
	}
	all := nodes + leaves
	f.feature, f.split = make([]int32, all), make([]float64, all)
	f.below, f.equal, f.above, f.nan = make([]int32, all), make([]int32, all), make([]int32, all), make([]int32, all)
	for i := nodes; i < all; i++ {
		f.below[i], f.equal[i], f.above[i], f.nan[i] = int32(i), int32(i), int32(i), int32(i)
	}
	f.leaves, f.targets = leaves, targets
	f.weights, f.has = make([]float64, leaves*targets), make([]bool, leaves*targets)
}

// depth returns the largest number of steps from a root to a leaf.
func (f *forest) depth() int {
	inner := len(f.feature) - f.leaves
	level := f.roots // the distinct nodes at this depth
	seen := 0        // nodes in all levels, to bound the work for trees that share nodes
	for depth := 0; ; depth++ {
		var next []int32
		for _, i := range level {
			if i < 0 || int(i) >= len(f.feature) {
				f.c.fail("a node leads to node %d of %d", i, len(f.feature))
			}
			if int(i) < inner {
				next = append(next, f.below[i], f.equal[i], f.above[i], f.nan[i])
			}
		}
		next = distinct(next)
		if len(next) == 0 {
			return depth
		}
		seen += len(next)
		if depth == maxTreeDepth || seen > 16*maxTreeNodes {
			f.c.fail("its trees have more than %d levels, or a node leads back to itself", maxTreeDepth)
		}
		level = next
	}
}

// distinct returns the different numbers of a list.
func distinct(list []int32) (out []int32) {
	seen := make(map[int32]bool, len(list))
	for _, v := range list {
		if !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// unrolledLevels is the largest number of levels for which the descent is unrolled instead of a loop.
const unrolledLevels = 8

// leafOf returns the leaf of each row in each tree, [N, trees].
func (f *forest) leafOf(x tensor) tensor {
	features := x.Dim(1)
	for _, k := range f.feature {
		if k < 0 || features.IsStatic() && int(k) >= features.Static() {
			f.c.fail("a node reads feature %d of %s", k, x)
		}
	}
	t := x.DType()
	feature, split := f.c.places(f.feature), f.c.vector(t, f.split)
	below, equal, above, nan := f.c.places(f.below), f.c.places(f.equal), f.c.places(f.above), f.c.places(f.nan)
	rows, trees := x.Dim(0), len(f.roots)
	at := f.c.places(f.roots).Unsqueeze(0).Broadcast(rows, trees)
	down := func(at tensor) tensor { // one step for each row and tree; a leaf stays
		flat := at.Reshape(-1)
		of := func(table tensor) tensor { return table.IndexSelect(0, flat).Reshape(rows, trees) }
		v, s := x.Gather(1, of(feature)), of(split)
		return v.Lt(s).Where(of(below), v.Eq(s).Where(of(equal), v.Gt(s).Where(of(above), of(nan))))
	}
	depth := f.depth()
	if depth <= unrolledLevels {
		for range depth {
			at = down(at)
		}
	} else {
		at = f.c.b.Loop(ir.D(depth), []tensor{at}, func(_ tensor, carried []tensor) []tensor {
			return []tensor{down(carried[0])}
		})[0]
	}
	return at.SubScalar(float64(len(f.feature) - f.leaves))
}

// sums returns, for each row and target, the aggregate of the weights of the row's leaves over all trees: [N, targets].
// how is SUM, AVERAGE, MIN or MAX.
func (f *forest) sums(x tensor, how string) tensor {
	if len(f.roots) == 0 || f.leaves == 0 {
		f.c.fail("it has %d trees with %d leaves", len(f.roots), f.leaves)
	}
	leaf := f.leafOf(x)
	rows, trees := x.Dim(0), len(f.roots)
	of := func(numbers []float64) tensor { // [N, trees, targets]
		table := f.c.vector(x.DType(), numbers, f.leaves, f.targets)
		return table.IndexSelect(0, leaf.Reshape(-1)).Reshape(rows, trees, f.targets)
	}
	switch how {
	case "SUM":
		return of(f.weights).Sum(1)
	case "AVERAGE":
		return of(f.weights).Sum(1).DivScalar(float64(trees))
	case "MIN", "MAX":
	default:
		f.c.fail("attribute aggregate_function is %q: want SUM, AVERAGE, MIN or MAX", how)
	}
	absent := math.Inf(1) // of targets without a weight in a leaf, which do not count
	if how == "MAX" {
		absent = math.Inf(-1)
	}
	numbers := make([]float64, len(f.weights))
	for i, v := range f.weights {
		numbers[i] = absent
		if f.has[i] {
			numbers[i] = v
		}
	}
	all := of(numbers)
	y := all.ReduceMin(1)
	if how == "MAX" {
		y = all.ReduceMax(1)
	}
	return y.Eq(y.Lit(absent)).Where(y.Lit(0), y) // no leaf has a weight
}

// numbersAttr returns an attribute with floats, or its variant that is a tensor of doubles.
func (c *call) numbersAttr(name string) []float64 {
	if c.hasAttr(name + "_as_tensor") {
		list, _ := c.tensorAttr(name + "_as_tensor")
		return list
	}
	return c.floatsAttr(name)
}

// checkLengths fails unless all attributes nodes_… have n elements.
func (c *call) checkLengths(n int, lengths ...int) {
	for _, length := range lengths {
		if length != n {
			c.fail("its attributes nodes_… have %d and %d elements", n, length)
		}
	}
}

// treeNode identifies a node by the ID of its tree, and by its ID within the tree.
type treeNode struct{ tree, node int }

// treesByID returns the forest of TreeEnsembleRegressor or TreeEnsembleClassifier. The names of the attributes with the
// weights of leaves have the prefix `target` or `class`.
func (c *call) treesByID(prefix string, targets int) *forest {
	f := &forest{c: c}
	trees, ids := c.intsAttr("nodes_treeids"), c.intsAttr("nodes_nodeids")
	features, splits := c.intsAttr("nodes_featureids"), c.numbersAttr("nodes_values")
	yes, no := c.intsAttr("nodes_truenodeids"), c.intsAttr("nodes_falsenodeids")
	missing := c.intsAttr("nodes_missing_value_tracks_true")
	n := len(ids)
	modes := c.must("nodes_modes", AttrStrings).Strings
	c.checkLengths(n, len(trees), len(features), len(splits), len(yes), len(no), len(modes))
	if len(missing) != 0 && len(missing) != n {
		c.fail("nodes_missing_value_tracks_true has %d elements for %d nodes", len(missing), n)
	}
	number, leaves := c.numberNodes(trees, ids, modes)
	f.grow(n-leaves, leaves, targets)
	isChild := map[int32]bool{}
	for i, mode := range modes {
		if mode == "LEAF" {
			continue
		}
		ifYes, okYes := number[treeNode{trees[i], yes[i]}]
		ifNo, okNo := number[treeNode{trees[i], no[i]}]
		if !okYes || !okNo {
			c.fail("node %d of tree %d leads to nodes %d and %d, and one of them is missing", ids[i], trees[i], yes[i],
				no[i])
		}
		isChild[ifYes], isChild[ifNo] = true, true
		k := number[treeNode{trees[i], ids[i]}]
		f.feature[k], f.split[k] = int32(features[i]), splits[i]
		f.branch(int(k), mode, ifYes, ifNo, len(missing) > 0 && missing[i] != 0)
	}
	for i := range n { // a node without a parent is a root
		if k := number[treeNode{trees[i], ids[i]}]; !isChild[k] {
			f.roots = append(f.roots, k)
		}
	}
	f.addWeights(prefix, number)
	return f
}

// numberNodes returns the number in the forest of each node, and the number of leaves. The leaves are last.
func (c *call) numberNodes(trees, ids []int, modes []string) (number map[treeNode]int32, leafCount int) {
	var inner, leaves []treeNode
	for i, mode := range modes {
		if node := (treeNode{trees[i], ids[i]}); mode == "LEAF" {
			leaves = append(leaves, node)
		} else {
			inner = append(inner, node)
		}
	}
	number = map[treeNode]int32{}
	for i, node := range append(inner, leaves...) {
		if _, ok := number[node]; ok {
			c.fail("node %d of tree %d occurs twice", node.node, node.tree)
		}
		number[node] = int32(i)
	}
	return number, len(leaves)
}

// addWeights adds the weights of leaves from attributes with the prefix `target` or `class`. number has the numbers of
// nodes in the forest.
func (f *forest) addWeights(prefix string, number map[treeNode]int32) {
	trees, nodes := f.c.intsAttr(prefix+"_treeids"), f.c.intsAttr(prefix+"_nodeids")
	targets, weights := f.c.intsAttr(prefix+"_ids"), f.c.numbersAttr(prefix+"_weights")
	if n := len(targets); len(trees) != n || len(nodes) != n || len(weights) != n {
		f.c.fail("its attributes %s_… have %d, %d, %d and %d elements", prefix, len(trees), len(nodes), n, len(weights))
	}
	for i, target := range targets {
		k, ok := number[treeNode{trees[i], nodes[i]}]
		leaf := int(k) - (len(f.feature) - f.leaves)
		if !ok || leaf < 0 || target < 0 || target >= f.targets {
			f.c.fail("a weight is for target %d of node %d of tree %d: there is no such leaf or target", target,
				nodes[i], trees[i])
		}
		f.weights[leaf*f.targets+target] += weights[i]
		f.has[leaf*f.targets+target] = true
	}
}

// treeRegressor builds TreeEnsembleRegressor.
func treeRegressor(c *call) tensor {
	f := c.treesByID("target", c.intAttr("n_targets", 1))
	x := c.rowsOf()
	y := f.sums(x, c.choice("aggregate_function", "SUM", "AVERAGE", "MIN", "MAX"))
	if base := c.numbersAttr("base_values"); len(base) > 0 {
		y = y.Add(scalarOrRow(c.vector(y.DType(), base)))
	}
	return castTo(c.transformed(y), ir.F32)
}

// treeClassifier builds TreeEnsembleClassifier: labels, and scores of the classes. If there are two classes, and all
// weights are for one of them, the score of the other class follows from it.
func treeClassifier(c *call) []*value {
	const names, numbers = "classlabels_strings", "classlabels_int64s"
	classes := c.classCount(names, numbers)
	f := c.treesByID("class", max(classes, 1))
	x, base := c.rowsOf(), c.numbersAttr("base_values")
	y := f.sums(x, "SUM")
	used, positive := map[int]bool{}, true
	for _, k := range c.intsAttr("class_ids") {
		used[k] = true
	}
	for _, w := range c.numbersAttr("class_weights") {
		positive = positive && w >= 0
	}
	if classes == 2 && len(used) == 1 {
		class := c.intsAttr("class_ids")[0]
		s := y.Slice(1, class, class+1)
		if len(base) > 0 {
			s = s.AddScalar(base[len(base)-1])
		}
		// Positive weights are probabilities.
		limit := 0.0
		if positive {
			limit = 0.5
		}
		at := s.Index(1, 0).Gt(s.Lit(limit)).Cast(ir.I32)
		return several(c.labels(at, names, numbers), castTo(c.bothClasses(s, positive), ir.F32))
	}
	if len(base) > 0 {
		y = y.Add(scalarOrRow(c.vector(y.DType(), base)))
	}
	return several(c.labels(y.Argmax(1), names, numbers), castTo(c.transformed(y), ir.F32))
}

// treeEnsemble builds TreeEnsemble of ai.onnx.ml 5, in which nodes refer to nodes and leaves by their index in lists.
func treeEnsemble(c *call) tensor {
	x := c.x(0)
	if x.Rank() != 2 {
		c.fail("of %s: want [rows, features]", x)
	}
	t := x.DType()
	if t != ir.F64 {
		x = castTo(x, ir.F32)
	}
	f := c.treesByPlace()
	how := c.intAttr("aggregate_function", 1)
	if how < 0 || how > 3 {
		c.fail("attribute aggregate_function is %d: want 0 to 3", how)
	}
	y := f.sums(x, []string{"AVERAGE", "SUM", "MIN", "MAX"}[how])
	return castTo(c.transformed(y), t)
}

// placedModes are the modes of the nodes of TreeEnsemble, by number. Mode memberMode tests whether a feature is in a
// set of values, by one node with BRANCH_EQ for each value.
var placedModes = []string{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_EQ"}

const memberMode = 6

// treesByPlace returns the forest of TreeEnsemble. A node that tests membership becomes a chain of nodes that each test
// equality with one value. The first node of the chain has the original number, and the others come after all nodes.
func (c *call) treesByPlace() *forest {
	numbers := func(name string) []float64 { // an optional attribute, a tensor
		if !c.hasAttr(name) {
			return nil
		}
		list, _ := c.tensorAttr(name)
		return list
	}
	splits, modes, features := numbers("nodes_splits"), numbers("nodes_modes"), c.intsAttr("nodes_featureids")
	yes, no := c.intsAttr("nodes_truenodeids"), c.intsAttr("nodes_falsenodeids")
	yesLeaf, noLeaf := c.intsAttr("nodes_trueleafs"), c.intsAttr("nodes_falseleafs")
	missing, members := c.intsAttr("nodes_missing_value_tracks_true"), numbers("membership_values")
	n := len(splits)
	c.checkLengths(n, len(modes), len(features), len(yes), len(no), len(yesLeaf), len(noLeaf))
	weights, targets := numbers("leaf_weights"), c.intsAttr("leaf_targetids")
	if len(weights) != len(targets) || len(missing) != 0 && len(missing) != n {
		c.fail("it has %d weights of leaves, %d targets, and %d nodes_missing_value_tracks_true for %d nodes",
			len(weights), len(targets), len(missing), n)
	}
	values := c.valuesOfNodes(splits, modes, members)
	inner := 0 // nodes of the forest
	for _, list := range values {
		inner += len(list)
	}
	f := &forest{c: c}
	f.grow(inner, len(weights), c.intAttr("n_targets", 1))
	// to returns the number in the forest of leaf number `at`, if isLeaf is not 0, or of node number `at`.
	to := func(isLeaf, at int) int32 {
		if isLeaf != 0 {
			at += inner
		}
		if at < 0 || at >= inner+len(weights) || isLeaf == 0 && at >= n {
			c.fail("a node leads to %d of %d nodes and %d leaves", at, n, len(weights))
		}
		return int32(at)
	}
	spare := n // the next free number after all nodes
	for i, list := range values {
		ifYes, ifNo := to(yesLeaf[i], yes[i]), to(noLeaf[i], no[i])
		nanYes := len(missing) > 0 && missing[i] != 0
		at := i
		for k, v := range list {
			next := ifNo
			if last := k == len(list)-1; !last { // the next node of the chain
				next = int32(spare)
				spare++
			}
			f.feature[at], f.split[at] = int32(features[i]), v
			f.branch(at, placedModes[int(modes[i])], ifYes, next, nanYes)
			at = int(next)
		}
	}
	for i, target := range targets {
		if target < 0 || target >= f.targets {
			c.fail("leaf_targetids has %d, of %d targets", target, f.targets)
		}
		f.weights[i*f.targets+target], f.has[i*f.targets+target] = weights[i], true
	}
	for _, root := range c.intsAttr("tree_roots") {
		f.roots = append(f.roots, to(0, root))
	}
	return f
}

// valuesOfNodes returns the values with which each node compares its feature: its split or, with memberMode, the values
// of its set. members has the sets in the order of their nodes, each with a NaN after it.
func (c *call) valuesOfNodes(splits, modes, members []float64) [][]float64 {
	values := make([][]float64, len(splits))
	for i, mode := range modes {
		if mode < 0 || mode > memberMode {
			c.fail("nodes_modes has %v: want 0 to %d", mode, memberMode)
		}
		if mode != memberMode {
			values[i] = splits[i : i+1]
			continue
		}
		end := slices.IndexFunc(members, math.IsNaN)
		if end < 0 { // the last set may lack the NaN
			end = len(members)
		}
		if end == 0 {
			c.fail("membership_values has no values for node %d", i)
		}
		values[i], members = members[:end], members[min(end+1, len(members)):]
	}
	return values
}
