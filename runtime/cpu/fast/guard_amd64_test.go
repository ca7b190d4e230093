//go:build linux

package fast

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/vkc-go/vkc/ir"
	"github.com/vkc-go/vkc/ir/interp"
)

// guarded is memory between two inaccessible pages. The assembly checks no bounds, so an access outside an operand
// would otherwise go unnoticed.
type guarded struct {
	t    *testing.T
	low  bool // operands begin directly after a page, instead of ending directly before one
	rng  *rand.Rand
	free []func()
}

// guardedSlice returns n elements that end where such a page begins, or begin where one ends.
func guardedSlice[E any](g *guarded, n int) []E {
	g.t.Helper()
	page, size := os.Getpagesize(), n*int(unsafe.Sizeof(*new(E)))
	inner := max((size+page-1)/page, 1) * page
	memory, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		g.t.Fatal(err)
	}
	g.free = append(g.free, func() {
		if err := syscall.Munmap(memory); err != nil {
			g.t.Error(err)
		}
	})
	for _, edge := range [][]byte{memory[:page], memory[page+inner:]} {
		if err := syscall.Mprotect(edge, syscall.PROT_NONE); err != nil {
			g.t.Fatal(err)
		}
	}
	at := page
	if !g.low {
		at += inner - size
	}
	return unsafe.Slice((*E)(unsafe.Pointer(&memory[at])), n)
}

// floats are random.
func (g *guarded) floats(n int) []float32 {
	x := guardedSlice[float32](g, n)
	for i := range x {
		x[i] = g.rng.Float32() - 0.5
	}
	return x
}

// stored are rows of a format, of any bits.
func (g *guarded) stored(d ir.DType, elems int) *interp.Stored {
	bytes := guardedSlice[byte](g, elems/d.BlockElems()*d.BlockBytes())
	copy(bytes, randomBytes(g.rng, len(bytes)))
	return &interp.Stored{DType: d, Bytes: bytes}
}

// inside calls f with operands in guarded memory, at both of its ends, and reports an access outside of them.
func inside(t *testing.T, what string, f func(g *guarded)) {
	t.Helper()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, low := range []bool{false, true} {
		g := &guarded{t: t, low: low, rng: rand.New(rand.NewPCG(1, 2))}
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("%s, operands at the low end %v: %v", what, low, p)
				}
			}()
			f(g)
		}()
		for _, free := range g.free {
			free()
		}
	}
}

// kernelTests call each function of the assembly as the fast path does, with operands of all sizes that differ in how
// they are left over, by the function's name.
func kernelTests() map[string]func(t *testing.T) {
	all := map[string]func(t *testing.T){}
	for _, a := range assemblies() {
		suffix := ""
		if a.lanes == 16 {
			suffix = "Z"
		}
		for name, test := range widthTests(a) {
			all[name+suffix] = func(t *testing.T) {
				defer func(v *assembly) { vector = v }(vector)
				vector = a
				test(t)
			}
		}
	}
	for kind, name := range map[reducerKind]string{sumOfFloats: "Sum", productOfFloats: "Product", leastFloat: "Least",
		greatestFloat: "Greatest"} {
		all["running"+name] = func(t *testing.T) {
			for n := 4; n < 24; n += 4 {
				inside(t, fmt.Sprintf("running results of %d", n), func(g *guarded) {
					scans[kind].list(&g.floats(n)[0], &g.floats(n)[0], 1, n)
				})
			}
		}
		all["running"+name+"Each"] = func(t *testing.T) {
			for n := lanes; n < 40; n += lanes {
				inside(t, fmt.Sprintf("running results of %d rows", n), func(g *guarded) {
					scans[kind].each(&guardedSlice[float64](g, n)[0], &g.floats(n)[0], &g.floats(n)[0], n)
				})
			}
		}
	}
	all["transposeRows8"], all["transposeRows16"] = transposeTest[byte], transposeTest[uint16]
	all["transpose8"], all["transposeRows64"] = transposeTest[float32], transposeTest[uint64]
	maps.Copy(all, convTests())
	all["repeatVectors"] = func(t *testing.T) {
		for n := range 40 {
			inside(t, fmt.Sprintf("fill of %d", n), func(g *guarded) { fill(g.floats(n), 1) })
		}
	}
	all["withinDoubles"] = func(t *testing.T) {
		for n := range 20 {
			inside(t, fmt.Sprintf("%d numbers within bounds", n), func(g *guarded) {
				list := guardedSlice[float64](g, n)
				fillOf(list, 1)
				for i := range list {
					for _, x := range []float64{-2, -3, 0.5, math.NaN(), math.Inf(1)} {
						if list[i] = x; within(list, 1, 2) != (x == -2) {
							t.Errorf("number %d of %d is %g", i, n, x)
						}
					}
					list[i] = 1
				}
			})
		}
	}
	const ofKeys = 24
	for name, f := range map[string]func(g *guarded){
		"floatKeys": func(g *guarded) {
			keysOfColumns.floats(&guardedSlice[int32](g, ofKeys)[0], &g.floats(ofKeys)[0], -1, ofKeys)
		},
		"floatsOfKeys": func(g *guarded) {
			keysOfColumns.floatsOf(&g.floats(ofKeys)[0], &guardedSlice[int32](g, ofKeys)[0], -1, ofKeys)
		},
		"doubleKeys": func(g *guarded) {
			keys := guardedSlice[int64](g, ofKeys)
			keysOfColumns.doubles(&keys[0], &guardedSlice[float64](g, ofKeys)[0], -1, ofKeys)
		},
		"doublesOfKeys": func(g *guarded) {
			keys := guardedSlice[int64](g, ofKeys)
			keysOfColumns.doublesOf(&guardedSlice[float64](g, ofKeys)[0], &keys[0], -1, ofKeys)
		},
		"numberedWords": func(g *guarded) {
			keysOfColumns.numberedWords(&guardedSlice[int32](g, ofKeys)[0], &guardedSlice[int32](g, ofKeys)[0],
				&guardedSlice[int32](g, ofKeys)[0], 3, 7, ofKeys)
		},
		"numberedLongs": func(g *guarded) {
			keysOfColumns.numberedLongs(&guardedSlice[int64](g, ofKeys)[0], &guardedSlice[int32](g, ofKeys)[0],
				&guardedSlice[int32](g, ofKeys)[0], ofKeys)
		},
	} {
		all[name] = func(t *testing.T) { inside(t, name, f) }
	}
	all["expsVectors"] = func(t *testing.T) {
		for n := range 40 {
			inside(t, fmt.Sprintf("exp of %d", n), func(g *guarded) { exps(g.floats(n), 0.5) })
		}
	}
	all["roundBytes"] = func(t *testing.T) {
		for groups := 1; groups < 6; groups++ {
			inside(t, fmt.Sprintf("%d groups rounded", groups), func(g *guarded) {
				roundBytes(&guardedSlice[int8](g, groups*ir.ByteGroup)[0], &g.floats(groups)[0], &g.floats(groups)[0],
					&g.floats(groups * ir.ByteGroup)[0], groups)
			})
		}
	}
	all["roundRecords"] = func(t *testing.T) {
		for groups := 1; groups < 6; groups++ {
			inside(t, fmt.Sprintf("%d groups rounded to records", groups), func(g *guarded) {
				roundRecords(&guardedSlice[int8](g, groups*ir.ByteGroup)[0], &g.floats(groups * recordWords)[0],
					&g.floats(groups * ir.ByteGroup)[0], groups)
			})
		}
	}
	for d, f := range assembledFormats() {
		test := func(t *testing.T) {
			for n := 1; n < 5*lanes; n++ {
				inside(t, fmt.Sprintf("%d of %s", n, d), func(g *guarded) {
					loader[float32](g.stored(d, n))(g.floats(n), 0, 1)
					storer[float32](g.stored(d, n))(0, g.floats(n))
				})
			}
		}
		all[functionName(f.load)], all[functionName(f.store)] = test, test
	}
	for name, f := range map[string]func(g *guarded, n int){
		"doublesOfFloats":    func(g *guarded, n int) { doublesOf(guardedSlice[float64](g, n), g.floats(n)) },
		"floatsOfDoubles":    func(g *guarded, n int) { floatsOf(g.floats(n), guardedSlice[float64](g, n)) },
		"oddFloatsOfDoubles": func(g *guarded, n int) { oddFloatsOf(g.floats(n), guardedSlice[float64](g, n)) },
		"longsOfWords":       func(g *guarded, n int) { longsOf(guardedSlice[float64](g, n), wordsOf(g.floats(n))) },
		"longsOfUnsigned":    func(g *guarded, n int) { unsignedLongsOf(guardedSlice[float64](g, n), wordsOf(g.floats(n))) },
		"wordsOfLongs":       func(g *guarded, n int) { lowWordsOf(wordsOf(g.floats(n)), guardedSlice[float64](g, n)) },
	} {
		all[name] = func(t *testing.T) {
			for n := 1; n < 5*lanes; n++ {
				inside(t, fmt.Sprintf("%s of %d", name, n), func(g *guarded) { f(g, n) })
			}
		}
	}
	of := func(name string, p *primitive) {
		all[functionName(p.vectors)] = func(t *testing.T) {
			for n := 1; n < 5*p.lanes; n++ {
				inside(t, fmt.Sprintf("%d of %s", n, name), func(g *guarded) {
					p.apply(g.floats(n), g.floats(n), g.floats(n), g.floats(n))
				})
			}
		}
	}
	for name := range assembled() {
		of(name, primitives[name])
	}
	wide := func(name string, p *primitiveOf[float64]) {
		all[functionName(p.vectors)] = func(t *testing.T) {
			for n := 1; n < 5*p.lanes; n++ {
				inside(t, fmt.Sprintf("%d of %s", n, name), func(g *guarded) {
					list := func() []float64 { return guardedSlice[float64](g, n) }
					p.apply(list(), list(), list(), list())
				})
			}
		}
	}
	for name := range assembledWide() {
		wide(name, widePrimitives[name])
	}
	for _, a := range assemblies() {
		for name, f := range a.functions {
			of(name, primitives[name].with(f, a.lanes))
		}
		for name, f := range a.doubles {
			wide(name, widePrimitives[name].with(f, a.lanes/2))
		}
	}
	return all
}

// transposeTest calls the function that transposes elements of a type.
func transposeTest[E byte | uint16 | float32 | uint64](t *testing.T) {
	for _, rows := range []int{0, 1, 2, 7, 8, 9, 16, 19, 33} {
		for cols := range 20 {
			inside(t, fmt.Sprintf("%d by %d transposed", rows, cols), func(g *guarded) {
				to, from := cols+3, rows+5
				dst, src := guardedSlice[E](g, rows*to), guardedSlice[E](g, cols*from)
				for i := range src {
					src[i] = E(i)
				}
				wholeRows, wholeCols := transposeBlocks(dst, src, to, from, rows, cols)
				for i := range wholeRows {
					for j := range wholeCols {
						if dst[i*to+j] != src[j*from+i] {
							t.Fatalf("element %d, %d of %d by %d is %v", i, j, rows, cols, dst[i*to+j])
						}
					}
				}
			})
		}
	}
}

// rowFoldTests adds the tests of functions that fold rows of one type of elements.
func rowFoldTests[T number](all map[string]func(t *testing.T), a *assembly, folds *rowFolds[T]) {
	add := func(f any, test func(t *testing.T)) {
		name, isWide := strings.CutSuffix(functionName(f), "Z")
		if isWide == (a.lanes == 16) { // functions that exist for one width are tried with that width
			all[name] = test
		}
	}
	list := func(g *guarded, n int) *T {
		x := guardedSlice[T](g, n)
		for i := range x {
			x[i] = T(i%7) - 3
		}
		return &x[0]
	}
	for _, p := range folds.programs {
		for k, f := range []rowFunction[T]{p.each, p.sum, p.onlySum, p.columns} {
			if f == nil {
				continue
			}
			add(f, func(t *testing.T) {
				for rows := 1; rows < 4; rows++ {
					for n := 1; n < 4*a.lanes; n++ {
						inside(t, fmt.Sprintf("%d rows of %d", rows, n), func(g *guarded) {
							of := func(n int) *T { return list(g, n) }
							sums := &guardedSlice[float64](g, rows)[0]
							out := of(rows * n)
							if k == 2 {
								out = nil
							}
							f(out, of(rows*n), of(rows*n), of(rows), of(rows), of(rows), of(n), of(n), sums, rows, n)
						})
					}
				}
			})
		}
	}
	for k, f := range []searchFunctions[T]{folds.ofFloats, folds.ofWords} {
		by := reducers[ir.OpReduceMax]
		if words := k == 1; words && elementWords[T]() == 2 {
			by = longReducer(ir.OpReduceMax, ir.I64)
		} else if words {
			by = wordReducer(ir.OpReduceMax, ir.I32, 1)
		}
		add(f.first, func(t *testing.T) {
			for rows := 1; rows < 4; rows++ {
				for n := 1; n < 4*a.lanes; n++ {
					inside(t, fmt.Sprintf("the places of %d rows of %d", rows, n), func(g *guarded) {
						x, extremes := unsafe.Slice(list(g, rows*n), rows*n), guardedSlice[float64](g, rows)
						at := guardedSlice[int32](g, rows)
						firsts(by, extremes, at, x)
						for i, place := range at {
							if place < 0 || int(place) >= n || !is(by, x[i*n+int(place)], extremes[i]) {
								t.Fatalf("the greatest of row %d of %d is at %d", i, n, place)
							}
						}
					})
				}
			}
		})
		for name, of := range []func(best *T, at *int32, x *T, k int32, n int){f.greatest, f.least} {
			add(of, func(t *testing.T) {
				for n := 1; n < 40; n++ {
					inside(t, fmt.Sprintf("the best of each of %d", n), func(g *guarded) {
						best, x := unsafe.Slice(list(g, n), n), unsafe.Slice(list(g, n), n)
						beatenBy(best, guardedSlice[int32](g, n), x, 3, name == 0, k == 1)
					})
				}
			})
		}
	}
	for _, functions := range folds.rows {
		for _, f := range functions {
			add(f, func(t *testing.T) {
				for rows := 1; rows < 4; rows++ {
					for n := 1; n < 4*a.lanes; n++ {
						inside(t, fmt.Sprintf("%d rows of %d", rows, n), func(g *guarded) {
							of := func(n int) *T { return list(g, n) }
							f(of(rows*n), of(rows*n), of(n), of(n), &guardedSlice[float64](g, rows)[0], 1, rows, n)
						})
					}
				}
			})
		}
	}
	for _, of := range folds.columns {
		inColumns := func(t *testing.T) {
			for n := 1; n < 4; n++ {
				for cols := a.lanes; cols < 4*a.lanes; cols += a.lanes {
					inside(t, fmt.Sprintf("%d columns of %d", cols, n), func(g *guarded) {
						f := func(n int) *T { return list(g, n) }
						results, x := guardedSlice[float64](g, partResults*cols), f(n*cols)
						of.whole(x, f(cols), x, &results[2*cols], 1, n, cols, cols)
						of.parts(&results[0], x, x, n, cols, cols, cols)
					})
				}
			}
		}
		add(of.whole, inColumns)
		add(of.parts, inColumns)
	}
	for i, f := range []func(dst, src *T, n, apart, cols int){folds.columnsIn, folds.columnsOut} {
		add(f, func(t *testing.T) {
			for n := 1; n < 4; n++ {
				for cols := 1; cols < 4*a.lanes; cols++ {
					inside(t, fmt.Sprintf("%d rows of %d in turns", n, cols), func(g *guarded) {
						matrix, lanes := list(g, n*(cols+n)-n), (cols+a.lanes-1)/a.lanes*a.lanes
						if blocks := list(g, n*lanes); i == 0 {
							f(blocks, matrix, n, cols+n, cols)
						} else {
							f(matrix, blocks, n, cols+n, cols)
						}
					})
				}
			}
		})
	}
}

// reducerTests adds the tests of reducers of one type of elements, by the name of their functions.
func reducerTests[T number](all map[string]func(t *testing.T), reducers map[string]*reducer) {
	list := func(g *guarded, n int) []T {
		x := guardedSlice[T](g, n)
		for i := range x {
			x[i] = T(g.rng.Float64() - 0.5)
		}
		return x
	}
	for name, r := range reducers {
		all[name+"Rows"] = func(t *testing.T) {
			for n := range 60 {
				for rows := 1; rows < 4; rows++ {
					inside(t, fmt.Sprintf("%s of %d rows of %d", name, rows, n), func(g *guarded) {
						rowsOf(r, guardedSlice[float64](g, rows), list(g, rows*n), list(g, rows*n))
					})
				}
			}
		}
		all[name+"Each"] = func(t *testing.T) {
			for n := range 60 {
				for rows := 1; rows < 4; rows++ {
					inside(t, fmt.Sprintf("%s of each of %d, %d rows", name, n, rows), func(g *guarded) {
						eachOf(r, guardedSlice[float64](g, n), list(g, rows*n))
					})
				}
			}
		}
	}
}

// widthTests are the kernelTests of functions that exist for each width, by the name without the width.
func widthTests(a *assembly) map[string]func(t *testing.T) {
	all := map[string]func(t *testing.T){}
	reducerTests[float32](all, map[string]*reducer{"sum": reducers[ir.OpSum], "product": reducers[ir.OpProd],
		"sumSquares": squares,
		"least":      reducers[ir.OpReduceMin], "greatest": reducers[ir.OpReduceMax],
		"sumWords": wordReducer(ir.OpSum, ir.I32, 1), "leastWords": wordReducer(ir.OpReduceMin, ir.I32, 1),
		"greatestWords": wordReducer(ir.OpReduceMax, ir.I32, 1)})
	reducerTests[float64](all, map[string]*reducer{"sumDoubles": reducers[ir.OpSum],
		"productDoubles": reducers[ir.OpProd], "sumSquaresDoubles": squares,
		"leastDoubles": reducers[ir.OpReduceMin], "greatestDoubles": reducers[ir.OpReduceMax],
		"sumLongs": longReducer(ir.OpSum, ir.I64), "leastLongs": longReducer(ir.OpReduceMin, ir.I64),
		"greatestLongs": longReducer(ir.OpReduceMax, ir.I64)})
	rowFoldTests(all, a, &a.rowFolds)
	rowFoldTests(all, a, &a.wideRowFolds)
	all["moments"] = func(t *testing.T) {
		for rows := 1; rows < 4; rows++ {
			for n := range 4 * a.lanes {
				inside(t, fmt.Sprintf("moments of %d rows of %d", rows, n), func(g *guarded) {
					list := func() []float64 { return guardedSlice[float64](g, rows) }
					momentsOf(list(), list(), list(), g.floats(rows*n), nil, n%2 == 0)
				})
			}
		}
	}
	all["fusedSteps"] = func(t *testing.T) {
		for op := range fusedOps {
			for _, n := range []int{1, a.lanes - 1, a.lanes, 4*a.lanes + 1, 6*a.lanes + 3} {
				inside(t, fmt.Sprintf("%d of fused %s", n, fusedOps[op]), func(g *guarded) {
					for _, mask := range []int{-1, 0} {
						if mask == 0 && op == fusedStore {
							continue
						}
						f := func(op int, list []float32, mask int) fusedStep {
							return fusedStep{op, unsafe.Pointer(&list[0]), mask}
						}
						elems := map[int]int{-1: n, 0: fusedElems}[mask]
						steps := []fusedStep{f(fusedLoad, g.floats(n), -1), f(op, g.floats(elems), mask),
							f(fusedStore, g.floats(n), -1)}
						a.fused(&steps[0].op, len(steps), n)
					}
				})
			}
		}
	}
	all["sortLongs"] = func(t *testing.T) {
		for n := 16; n <= 256; n *= 2 {
			inside(t, fmt.Sprintf("%d integers", n), func(g *guarded) {
				a.sort(&guardedSlice[int64](g, n)[0], n)
			})
		}
	}
	const lines = 5
	all["exchangeWords"] = func(t *testing.T) {
		pairs := sortingNetwork(lines, lines)
		inside(t, "lines of words", func(g *guarded) {
			a.exchange.words(&guardedSlice[int32](g, lines*lineBytes/4)[0], &pairs[0], len(pairs)/2)
		})
	}
	all["exchangeLongs"] = func(t *testing.T) {
		pairs := sortingNetwork(lines, lines)
		inside(t, "lines of long words", func(g *guarded) {
			a.exchange.longs(&guardedSlice[int64](g, lines*lineBytes/8)[0], &pairs[0], len(pairs)/2)
		})
	}
	product := func(t *testing.T) {
		for rows := 1; rows <= 9; rows++ {
			for cols := 1; cols <= 9; cols++ {
				for _, k := range []int{1, 8, 9, 15, 16, 17, 40} {
					inside(t, fmt.Sprintf("%d rows by %d columns of %d", rows, cols, k), func(g *guarded) {
						stride := cols + 3
						sums := g.floats((rows-1)*stride + cols)
						multiply(sums, stride, g.floats(rows*k), g.floats(cols*k), rows, cols, k)
					})
				}
			}
		}
	}
	all["dots1x4"], all[fmt.Sprintf("dots4x%d", a.tileCols)] = product, product
	weighed := func(t *testing.T) {
		for _, e := range []int{1, 7, 8, 9, 16, 31, 32, 33, 40, 71} {
			for rows := range 4 {
				inside(t, fmt.Sprintf("%d rows of %d weighed", rows, e), func(g *guarded) {
					weigh(g.floats(e), g.floats(rows), g.floats(rows*e))
				})
			}
		}
	}
	all["weigh4"], all["weigh1"] = weighed, weighed
	for d, name := range map[ir.DType]string{ir.F16: "F16", ir.BF16: "BF16", ir.Q8_0: "Q8_0", ir.Q4_0: "Q4_0",
		ir.Q4_K: "Q4_K", ir.Q6_K: "Q6_K"} {
		step := max(a.lanes, d.BlockElems())
		decoder := func(t *testing.T) {
			for blocks := 1; blocks < 36; blocks++ {
				n := blocks * d.BlockElems()
				inside(t, fmt.Sprintf("%d of %s decoded", n, d), func(g *guarded) {
					if err := decode(g.floats(n), g.stored(d, n), 0); err != nil {
						t.Error(err)
					}
				})
			}
		}
		if all["decode"+name] = decoder; !d.IsBlock() {
			delete(all, "decode"+name)
			all["widen"+name] = decoder
		}
		all["dots1x4"+name] = func(t *testing.T) {
			eachProduct(t, "stored "+name, step, func(g *guarded, rows, cols, k int) {
				if !multiplyStored(g.floats(rows*cols), cols, g.floats(rows*k), g.stored(d, cols*k), 0, rows, cols, k) {
					t.Errorf("there are no products by %s", d)
				}
			})
		}
	}
	for d, name := range map[ir.DType]string{ir.Q8_0: "Q8_0", ir.Q4_0: "Q4_0", ir.Q4_K: "Q4_K", ir.Q6_K: "Q6_K"} {
		bytes := func(t *testing.T) {
			eachProduct(t, "bytes "+name, d.BlockElems(), func(g *guarded, rows, cols, k int) {
				multiplyGuardedBytes(g, d, rows, cols, k)
			})
		}
		if a.panels == nil {
			all["byteDots"+name] = bytes
			continue
		}
		all["blocksInterleave"+name], all["blocksRow"+name], all["blocksPack"+name] = bytes, bytes, bytes
		inPanels := func(t *testing.T) {
			inside(t, "panels of "+name, func(g *guarded) { multiplyGuardedBytes(g, d, 15, 17, 2*d.BlockElems()) })
		}
		prefix := map[bool]string{true: "panelHalves", false: "panelScales"}[d == ir.Q6_K]
		if d == ir.Q4_K {
			prefix = "panelMinima"
		}
		for _, f := range a.panels.of(d).tiles {
			all[fmt.Sprint(prefix, f.rows)] = inPanels
		}
	}
	for prefix, list := range map[string][]intDots{"pairs": a.pairs, "quads": a.quads} {
		for _, d := range list {
			f := &intForm{4, []intDots{d}, a.lanes * intColumns, 0}
			all[fmt.Sprint(prefix, d.rows)] = func(t *testing.T) {
				for groups := 1; groups < 4; groups++ {
					inside(t, fmt.Sprintf("%d groups of integers", groups), func(g *guarded) {
						offsets, panels := guardedSlice[int](g, groups), 1+groups%2
						for i := range offsets {
							offsets[i] = i * f.cols * groupBytes
						}
						lda, b := groups*groupBytes, guardedSlice[byte](g, (groups+panels-1)*f.cols*groupBytes)
						out, sums := guardedSlice[int32](g, d.rows*f.cols*panels), guardedSlice[int32](g, d.rows)
						a := guardedSlice[byte](g, d.rows*lda)
						f.multiply(out, f.cols*panels, a, lda, b, offsets, d.rows, sums, panels)
					})
				}
			}
		}
	}
	return all
}

// multiplyGuardedBytes multiplies int8 rows by rows of blocks.
func multiplyGuardedBytes(g *guarded, d ir.DType, rows, cols, k int) {
	groups := rows * k / ir.ByteGroup
	a := &byteRows{bytes: guardedSlice[int8](g, rows*k), scales: g.floats(groups), sums: g.floats(groups),
		records: g.floats(groups * recordWords)}
	room := func(interleaved bool) []float32 {
		return guardedSlice[float32](g, bytesRoom(d, interleaved, rows, k))
	}
	b := g.stored(d, cols*k)
	multiplyBytes(g.floats(rows*cols), cols, a, 0, b, false, 0, rows, cols, k, room(false))
	if vector.panels != nil {
		list := interleavedRows(b, cols, k)
		packed := guardedSlice[float32](g, len(list))
		copy(packed, list)
		multiplyBytes(g.floats(rows*cols), cols, a, 0, &interp.Stored{DType: d, Bytes: as[byte](packed)}, true, 0, rows,
			cols, k, room(true))
	}
}

// convTests are kernelTests for the assembly of convolutions.
func convTests() map[string]func(t *testing.T) {
	all := map[string]func(t *testing.T){}
	tile := func(t *testing.T) {
		for count := 1; count <= 3; count++ {
			for terms := 1; terms <= 9; terms++ {
				inside(t, fmt.Sprintf("a tile of %d vectors, %d terms", count, terms), func(g *guarded) {
					n, stride, offsets := count*lanes, count*lanes+3, guardedSlice[int32](g, terms)
					for i := range offsets {
						offsets[i] = int32(4 * 5 * i)
					}
					convTile(count, g.floats(7*stride+n), stride, g.floats(5*(terms-1)+n), offsets,
						g.floats(2*terms*channelBlock), terms*channelBlock, 2, terms%2 == 0)
				})
			}
		}
	}
	all["convTile1"], all["convTile2"], all["convTile3"] = tile, tile, tile
	taps := func(t *testing.T) {
		for n := range 80 {
			inside(t, fmt.Sprintf("%d positions of a channel", n+1), func(g *guarded) {
				offsets := guardedSlice[int32](g, 2)
				offsets[1] = 4 * 7
				convTaps(g.floats(n+1), g.floats(n+8), offsets, g.floats(2), n+1, 1)
				convTaps(g.floats(n+1), g.floats(2*(n+1)+7), offsets, g.floats(2), n+1, 2)
			})
		}
	}
	all["convTaps4"], all["convTaps1"], all["convPairs4"], all["convPairs1"] = taps, taps, taps, taps
	all["convColumn"] = func(t *testing.T) {
		for terms := 8; terms <= 32; terms += 8 {
			inside(t, fmt.Sprintf("one position of %d terms", terms), func(g *guarded) {
				convPosition(g.floats(12), g.floats(terms), g.floats(12*terms))
			})
		}
	}
	all["running8"], all["running16"], all["running32"] = runningTest[uint8], runningTest[uint16], runningTest[int32]
	type replacing = func(dst, from *byte, ids *uint32, rows, cols, apart, limit, stride, step int)
	for size, f := range map[int]replacing{1: replace8, 2: replace16, 4: replace32, 8: replace64} {
		all[fmt.Sprint("replace", 8*size)] = func(t *testing.T) {
			for cols := 1; cols < 20; cols++ {
				inside(t, fmt.Sprintf("%d columns replaced", cols), func(g *guarded) {
					const rows, n = 2, 5
					list := func(size int) *byte { return &guardedSlice[byte](g, ((rows-1)*(cols+1)+cols)*size)[0] }
					ids := unsafe.Slice((*uint32)(unsafe.Pointer(list(4))), (rows-1)*(cols+1)+cols)
					for i := range ids {
						ids[i] = uint32(i%(n+2)) - 1 // some are not below n
					}
					dst := guardedSlice[byte](g, ((n-1)*(cols+3)+cols)*size)
					f(&dst[0], list(size), &ids[0], rows, cols, cols+1, n, cols+3, 1)
				})
			}
		}
	}
	all["copyRows"] = func(t *testing.T) {
		for n := range 20 {
			inside(t, fmt.Sprintf("rows of %d moved", n), func(g *guarded) {
				moveRows(g.floats(2*(n+1)+n), n+1, g.floats(2*(n+3)+n), n+3, n, 3)
			})
		}
	}
	all["everySecond"] = func(t *testing.T) {
		for n := range 40 {
			inside(t, fmt.Sprintf("%d of every second one", n), func(g *guarded) {
				secondOnes(g.floats(n), g.floats(2*n+1))
			})
		}
	}
	merge := func(elems int) func(t *testing.T) {
		return func(t *testing.T) {
			for n := 1; n < 3*lanes; n++ {
				inside(t, fmt.Sprintf("%d groups of %d", n, elems), func(g *guarded) {
					var src [4][]int32
					for i := range elems {
						src[i] = guardedSlice[int32](g, n)
					}
					mergeGroups(guardedSlice[byte](g, n*groupBytes), &src, elems, 128)
				})
			}
		}
	}
	all["mergePairs"], all["mergeQuads"] = merge(2), merge(4)
	all["mergeBytes"] = func(t *testing.T) {
		for n := 1; n < 3*lanes; n++ {
			inside(t, fmt.Sprintf("%d groups of bytes", n), func(g *guarded) {
				var src [4][]byte
				for i := range src {
					src[i] = guardedSlice[byte](g, n)
				}
				mergeLists(guardedSlice[byte](g, n*groupBytes), &src, 128)
			})
		}
	}
	all["shiftedBytes"] = func(t *testing.T) {
		for n := range 3 * lanes {
			inside(t, fmt.Sprintf("%d words narrowed", n), func(g *guarded) {
				narrowWords(guardedSlice[byte](g, n), guardedSlice[int32](g, n), 1)
			})
		}
	}
	all["tileInputs"] = func(t *testing.T) {
		for n := 1; n < 3*lanes; n++ {
			inside(t, fmt.Sprintf("inputs of %d tiles", n), func(g *guarded) {
				line, pitch := upTo(n)+1, 2*upTo(n)+3
				winogradInputs(g.floats(15*line+upTo(n)), line, g.floats(3*pitch+2*upTo(n)+2), pitch, n)
			})
		}
	}
	all["tileResults"] = func(t *testing.T) {
		for n := 1; n < 3*lanes; n++ {
			inside(t, fmt.Sprintf("results of %d tiles", n), func(g *guarded) {
				line, pitch := upTo(n)+1, 2*upTo(n)+3
				winogradResults(g.floats(pitch+2*upTo(n)), pitch, g.floats(15*line+upTo(n)), line, n)
			})
		}
	}
	all["allBelow"] = func(t *testing.T) {
		for n := range 3 * lanes {
			inside(t, fmt.Sprintf("%d magnitudes", n), func(g *guarded) { below(g.floats(n), 1) })
		}
	}
	all["scaledRows"] = func(t *testing.T) {
		for n := range 20 {
			inside(t, fmt.Sprintf("rows of %d scaled", n), func(g *guarded) {
				scaleRows(g.floats(2*(n+1)+n), n+1, guardedSlice[int32](g, 2*(n+3)+n), n+3, n, 3, 0.5)
			})
		}
	}
	return all
}

// eachProduct calls f with sizes of small matmuls whose rows have a multiple of step elements.
func eachProduct(t *testing.T, what string, step int, f func(g *guarded, rows, cols, k int)) {
	for rows := 1; rows <= 2; rows++ {
		for cols := 1; cols <= 9; cols++ {
			for _, k := range []int{step, 2 * step, 3 * step} {
				inside(t, fmt.Sprintf("%s: %d rows by %d columns of %d", what, rows, cols, k),
					func(g *guarded) { f(g, rows, cols, k) })
			}
		}
	}
}

// TestGuardPages: no function of the assembly reads or writes outside of its operands, and every one is tried.
func TestGuardPages(t *testing.T) {
	if !vectors {
		t.Skip("the assembly does not run on this processor")
	}
	files, err := filepath.Glob("*_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for _, f := range files {
		part, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, part...)
	}
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^TEXT ·(\w+)\(SB\)`).FindAllSubmatch(text, -1) {
		if name := string(m[1]); !strings.HasSuffix(name, "Z") || len(assemblies()) > 1 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	tests := kernelTests()
	if tried := slices.Sorted(maps.Keys(tests)); !slices.Equal(tried, names) {
		t.Errorf("the assembly has functions %v, tried are %v", names, tried)
	}
	for name, test := range tests {
		t.Run(name, test)
	}
}

// TestGuardsGuard: an element too far is noticed.
func TestGuardsGuard(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, low := range []bool{false, true} {
		g := &guarded{t: t, low: low, rng: rand.New(rand.NewPCG(1, 2))}
		x := g.floats(3)
		past := unsafe.Pointer(uintptr(unsafe.Pointer(&x[0])) + 3*4)
		if low {
			past = unsafe.Pointer(uintptr(unsafe.Pointer(&x[0])) - 4)
		}
		caught := func() (caught bool) {
			defer func() { caught = recover() != nil }()
			return *(*float32)(past) == 0 && false
		}()
		if !caught {
			t.Errorf("low end %v: reading outside of it goes unnoticed", low)
		}
		for _, free := range g.free {
			free()
		}
	}
}

// functionName is the name of a function of this package.
func functionName(f any) string {
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	return name[strings.LastIndex(name, ".")+1:]
}

// runningTest computes running sums of guarded integers.
func runningTest[E anyInt](t *testing.T) {
	for n := 1; n < 80; n++ {
		inside(t, fmt.Sprintf("running sums of %d integers", n), func(g *guarded) {
			runningInts(ir.OpSum, 3, guardedSlice[E](g, n), guardedSlice[E](g, n))
		})
	}
}
