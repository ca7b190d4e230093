package fast

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/vkc-go/vkc/internal/disabled"
	"github.com/vkc-go/vkc/ir"
)

// vectors says whether this processor has AVX2, FMA, F16C and BMI2. Functions that exist for one width only need them.
var vectors = cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C && cpu.X86.HasBMI2

// assemblies returns the assembly that this processor can run, for each width of vectors, the narrowest first.
func assemblies() []*assembly {
	if !vectors {
		return nil
	}
	list := []*assembly{{
		name: "avx2", lanes: 8, dots1x4: dots1x4, tile: dots4x3, tileCols: 3, weigh4: weigh4, weigh1: weigh1,
		dots: byFormat[dotsOf]{ir.F16: dots1x4F16, ir.BF16: dots1x4BF16, ir.Q8_0: dots1x4Q8_0, ir.Q4_0: dots1x4Q4_0,
			ir.Q4_K: dots1x4Q4_K, ir.Q6_K: dots1x4Q6_K},
		decoders: byFormat[decoder]{ir.F16: widenF16, ir.BF16: widenBF16, ir.Q8_0: decodeQ8_0, ir.Q4_0: decodeQ4_0,
			ir.Q4_K: decodeQ4_K, ir.Q6_K: decodeQ6_K},
		byteDots: byFormat[byteDotsOf]{ir.Q8_0: byteDotsQ8_0, ir.Q4_0: byteDotsQ4_0, ir.Q4_K: byteDotsQ4_K,
			ir.Q6_K: byteDotsQ6_K},
		pairs: []intDots{{4, pairs4}, {2, pairs2}, {1, pairs1}},
		functions: map[string]func(out, x, y, z *float32, n int){
			"exp":          expVectors,
			"exp2":         exp2Vectors,
			"expm1":        expm1Vectors,
			"log":          logVectors,
			"log2":         log2Vectors,
			"log1p":        log1pVectors,
			"sin_accurate": sinVectors,
			"cos_accurate": cosVectors,
			"atan":         atanVectors,
			"tanh_safe":    tanhVectors,
			"erf":          erfVectors,
			"logistic":     logisticVectors,
			"pow_full":     powVectors,
		},
		doubles: map[string]func(out, x, y, z *float64, n int){
			"exp":          expDoubles,
			"exp2":         exp2Doubles,
			"expm1":        expm1Doubles,
			"log":          logDoubles,
			"log2":         log2Doubles,
			"log1p":        log1pDoubles,
			"sin_accurate": sinDoubles,
			"cos_accurate": cosDoubles,
			"atan":         atanDoubles,
			"tanh_safe":    tanhDoubles,
			"erf":          erfDoubles,
			"logistic":     logisticDoubles,
			"pow_full":     powDoubles,
		},
		sort:     sortLongs,
		exchange: exchanges{exchangeWords, exchangeLongs},
		keys:     keysOfColumns,
		reductions: [reducerKinds]reduction[float32]{
			sumOfFloats:     {sumRows, sumEach},
			productOfFloats: {productRows, productEach},
			sumOfSquares:    {sumSquaresRows, sumSquaresEach},
			leastFloat:      {leastRows, leastEach},
			greatestFloat:   {greatestRows, greatestEach},

			sumOfWords:   {sumWordsRows, sumWordsEach},
			leastWord:    {leastWordsRows, leastWordsEach},
			greatestWord: {greatestWordsRows, greatestWordsEach},
		},
		wideReductions: [reducerKinds]reduction[float64]{
			sumOfFloats:     {sumDoublesRows, sumDoublesEach},
			productOfFloats: {productDoublesRows, productDoublesEach},
			sumOfSquares:    {sumSquaresDoublesRows, sumSquaresDoublesEach},
			leastFloat:      {leastDoublesRows, leastDoublesEach},
			greatestFloat:   {greatestDoublesRows, greatestDoublesEach},

			sumOfWords:   {sumLongsRows, sumLongsEach},
			leastWord:    {leastLongsRows, leastLongsEach},
			greatestWord: {greatestLongsRows, greatestLongsEach},
		},
		rowFolds: rowFolds[float32]{
			ofFloats: searchFunctions[float32]{firstEqualFloats, greatestFloatsAt, leastFloatsAt},
			ofWords:  searchFunctions[float32]{firstEqualWords, greatestWordsAt, leastWordsAt},
			programs: &[len(rowPrograms)]rowFunctions[float32]{
				{each: rowsAddRow},
				{each: rowsSubRow},
				{each: rowsMulRow},
				{each: rowsDivRow, columns: rowsDivList},
				{each: rowsSubRowSubRow, columns: rowsSubListSubList},
				{each: rowsSubRowExp, sum: rowsSubRowExpSum, onlySum: rowsSubRowExpOnlySum},
				{each: rowsMulRowMulList},
				{each: rowsSubRowSubRowMulRow},
				{each: rowsSubRowSubRowMulRowMulList},
				{each: rowsSubRowSubRowMulRowMulListAddList},
				{each: rowsSubRowMulRowAddRow},
				{each: rowsSubRowExpMulRow, columns: rowsSubListExpMulList},
			},
			rows: map[ir.Op][]rowFold[float32]{
				ir.OpSoftmax:     {softmaxRows},
				ir.OpLogSoftmax:  {logSoftmaxRows},
				ir.OpLogSumExp:   {logSumExpRows},
				ir.OpVariance:    {varianceRows},
				ir.OpL2Normalize: {l2NormalizeRows},
				ir.OpRMSNorm:     {rmsNormRows, rmsNormListRows},
				ir.OpLayerNorm:   {layerNormRows, layerNormListRows, layerNormListsRows},
			},
			columns: map[ir.Op]columnFold[float32]{
				ir.OpSoftmax:     {softmaxColumns, exponentialsOfColumns},
				ir.OpLogSoftmax:  {logSoftmaxColumns, exponentialsOfColumns},
				ir.OpLogSumExp:   {logSumExpColumns, exponentialsOfColumns},
				ir.OpVariance:    {varianceColumns, momentsOfColumns},
				ir.OpL2Normalize: {l2NormalizeColumns, squaresOfColumns},
			},
			columnsIn: columnsIn, columnsOut: columnsOut,
		},
		wideRowFolds: rowFolds[float64]{
			ofFloats: searchFunctions[float64]{firstEqualDoubles, greatestDoublesAt, leastDoublesAt},
			ofWords:  searchFunctions[float64]{firstEqualLongs, greatestLongsAt, leastLongsAt},
			programs: &[len(rowPrograms)]rowFunctions[float64]{
				{each: rowsAddRowDoubles},
				{each: rowsSubRowDoubles},
				{each: rowsMulRowDoubles},
				{each: rowsDivRowDoubles, columns: rowsDivListDoubles},
				{each: rowsSubRowSubRowDoubles, columns: rowsSubListSubListDoubles},
				{each: rowsSubRowExpDoubles, sum: rowsSubRowExpSumDoubles, onlySum: rowsSubRowExpOnlySumDoubles},
				{each: rowsMulRowMulListDoubles},
				{each: rowsSubRowSubRowMulRowDoubles},
				{each: rowsSubRowSubRowMulRowMulListDoubles},
				{each: rowsSubRowSubRowMulRowMulListAddListDoubles},
				{each: rowsSubRowMulRowAddRowDoubles},
				{each: rowsSubRowExpMulRowDoubles, columns: rowsSubListExpMulListDoubles},
			},
			rows: map[ir.Op][]rowFold[float64]{
				ir.OpSoftmax:     {softmaxRowsDoubles},
				ir.OpLogSoftmax:  {logSoftmaxRowsDoubles},
				ir.OpLogSumExp:   {logSumExpRowsDoubles},
				ir.OpVariance:    {varianceRowsDoubles},
				ir.OpL2Normalize: {l2NormalizeRowsDoubles},
				ir.OpRMSNorm:     {rmsNormRowsDoubles, rmsNormListRowsDoubles},
				ir.OpLayerNorm:   {layerNormRowsDoubles, layerNormListRowsDoubles, layerNormListsRowsDoubles},
			},
			columns: map[ir.Op]columnFold[float64]{
				ir.OpSoftmax:     {softmaxColumnsDoubles, exponentialsOfColumnsDoubles},
				ir.OpLogSoftmax:  {logSoftmaxColumnsDoubles, exponentialsOfColumnsDoubles},
				ir.OpLogSumExp:   {logSumExpColumnsDoubles, exponentialsOfColumnsDoubles},
				ir.OpVariance:    {varianceColumnsDoubles, momentsOfColumnsDoubles},
				ir.OpL2Normalize: {l2NormalizeColumnsDoubles, squaresOfColumnsDoubles},
			},
			columnsIn: columnsInDoubles, columnsOut: columnsOutDoubles,
		},
		moments: moments,
		fused:   fusedSteps,
	}}
	if x := cpu.X86; x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI {
		list = append(list, &assembly{
			name: disabled.AVX512, lanes: 16, dots1x4: dots1x4Z, tile: dots4x6Z, tileCols: 6, weigh4: weigh4Z,
			weigh1: weigh1Z,
			dots: byFormat[dotsOf]{ir.F16: dots1x4F16Z, ir.BF16: dots1x4BF16Z, ir.Q8_0: dots1x4Q8_0Z,
				ir.Q4_0: dots1x4Q4_0Z, ir.Q4_K: dots1x4Q4_KZ, ir.Q6_K: dots1x4Q6_KZ},
			decoders: byFormat[decoder]{ir.F16: widenF16Z, ir.BF16: widenBF16Z, ir.Q8_0: decodeQ8_0Z,
				ir.Q4_0: decodeQ4_0Z, ir.Q4_K: decodeQ4_KZ, ir.Q6_K: decodeQ6_KZ},
			panels: byFormat[*panelForm]{
				ir.Q8_0: {blocksInterleaveQ8_0Z, blocksRowQ8_0Z, blocksPackQ8_0Z, panelsOfScales, 9 * 64},
				ir.Q4_0: {blocksInterleaveQ4_0Z, blocksRowQ4_0Z, blocksPackQ4_0Z, panelsOfScales, 9 * 64},
				ir.Q4_K: {blocksInterleaveQ4_KZ, blocksRowQ4_KZ, blocksPackQ4_KZ, panelsOfMinima, 10 * 64},
				ir.Q6_K: {blocksInterleaveQ6_KZ, blocksRowQ6_KZ, blocksPackQ6_KZ, panelsOfHalves, 10 * 64},
			},
			pairs: []intDots{{8, pairs8Z}, {4, pairs4Z}, {2, pairs2Z}, {1, pairs1Z}},
			quads: []intDots{{8, quads8Z}, {4, quads4Z}, {2, quads2Z}, {1, quads1Z}},
			functions: map[string]func(out, x, y, z *float32, n int){
				"exp":          expVectorsZ,
				"exp2":         exp2VectorsZ,
				"expm1":        expm1VectorsZ,
				"log":          logVectorsZ,
				"log2":         log2VectorsZ,
				"log1p":        log1pVectorsZ,
				"sin_accurate": sinVectorsZ,
				"cos_accurate": cosVectorsZ,
				"atan":         atanVectorsZ,
				"tanh_safe":    tanhVectorsZ,
				"erf":          erfVectorsZ,
				"logistic":     logisticVectorsZ,
				"pow_full":     powVectorsZ,
			},
			doubles: map[string]func(out, x, y, z *float64, n int){
				"exp":          expDoublesZ,
				"exp2":         exp2DoublesZ,
				"expm1":        expm1DoublesZ,
				"log":          logDoublesZ,
				"log2":         log2DoublesZ,
				"log1p":        log1pDoublesZ,
				"sin_accurate": sinDoublesZ,
				"cos_accurate": cosDoublesZ,
				"atan":         atanDoublesZ,
				"tanh_safe":    tanhDoublesZ,
				"erf":          erfDoublesZ,
				"logistic":     logisticDoublesZ,
				"pow_full":     powDoublesZ,
			},
			sort:     sortLongsZ,
			exchange: exchanges{exchangeWordsZ, exchangeLongsZ},
			keys:     keysOfColumns,
			reductions: [reducerKinds]reduction[float32]{
				sumOfFloats:     {sumRowsZ, sumEachZ},
				productOfFloats: {productRowsZ, productEachZ},
				sumOfSquares:    {sumSquaresRowsZ, sumSquaresEachZ},
				leastFloat:      {leastRowsZ, leastEachZ},
				greatestFloat:   {greatestRowsZ, greatestEachZ},

				sumOfWords:   {sumWordsRowsZ, sumWordsEachZ},
				leastWord:    {leastWordsRowsZ, leastWordsEachZ},
				greatestWord: {greatestWordsRowsZ, greatestWordsEachZ},
			},
			wideReductions: [reducerKinds]reduction[float64]{
				sumOfFloats:     {sumDoublesRowsZ, sumDoublesEachZ},
				productOfFloats: {productDoublesRowsZ, productDoublesEachZ},
				sumOfSquares:    {sumSquaresDoublesRowsZ, sumSquaresDoublesEachZ},
				leastFloat:      {leastDoublesRowsZ, leastDoublesEachZ},
				greatestFloat:   {greatestDoublesRowsZ, greatestDoublesEachZ},

				sumOfWords:   {sumLongsRowsZ, sumLongsEachZ},
				leastWord:    {leastLongsRowsZ, leastLongsEachZ},
				greatestWord: {greatestLongsRowsZ, greatestLongsEachZ},
			},
			rowFolds: rowFolds[float32]{
				ofFloats: searchFunctions[float32]{firstEqualFloatsZ, greatestFloatsAt, leastFloatsAt},
				ofWords:  searchFunctions[float32]{firstEqualWordsZ, greatestWordsAt, leastWordsAt},
				programs: &[len(rowPrograms)]rowFunctions[float32]{
					{each: rowsAddRowZ},
					{each: rowsSubRowZ},
					{each: rowsMulRowZ},
					{each: rowsDivRowZ, columns: rowsDivListZ},
					{each: rowsSubRowSubRowZ, columns: rowsSubListSubListZ},
					{each: rowsSubRowExpZ, sum: rowsSubRowExpSumZ, onlySum: rowsSubRowExpOnlySumZ},
					{each: rowsMulRowMulListZ},
					{each: rowsSubRowSubRowMulRowZ},
					{each: rowsSubRowSubRowMulRowMulListZ},
					{each: rowsSubRowSubRowMulRowMulListAddListZ},
					{each: rowsSubRowMulRowAddRowZ},
					{each: rowsSubRowExpMulRowZ, columns: rowsSubListExpMulListZ},
				},
				rows: map[ir.Op][]rowFold[float32]{
					ir.OpSoftmax:     {softmaxRowsZ},
					ir.OpLogSoftmax:  {logSoftmaxRowsZ},
					ir.OpLogSumExp:   {logSumExpRowsZ},
					ir.OpVariance:    {varianceRowsZ},
					ir.OpL2Normalize: {l2NormalizeRowsZ},
					ir.OpRMSNorm:     {rmsNormRowsZ, rmsNormListRowsZ},
					ir.OpLayerNorm:   {layerNormRowsZ, layerNormListRowsZ, layerNormListsRowsZ},
				},
				columns: map[ir.Op]columnFold[float32]{
					ir.OpSoftmax:     {softmaxColumnsZ, exponentialsOfColumnsZ},
					ir.OpLogSoftmax:  {logSoftmaxColumnsZ, exponentialsOfColumnsZ},
					ir.OpLogSumExp:   {logSumExpColumnsZ, exponentialsOfColumnsZ},
					ir.OpVariance:    {varianceColumnsZ, momentsOfColumnsZ},
					ir.OpL2Normalize: {l2NormalizeColumnsZ, squaresOfColumnsZ},
				},
				columnsIn: columnsInZ, columnsOut: columnsOutZ,
			},
			wideRowFolds: rowFolds[float64]{
				ofFloats: searchFunctions[float64]{firstEqualDoublesZ, greatestDoublesAt, leastDoublesAt},
				ofWords:  searchFunctions[float64]{firstEqualLongsZ, greatestLongsAt, leastLongsAt},
				programs: &[len(rowPrograms)]rowFunctions[float64]{
					{each: rowsAddRowDoublesZ},
					{each: rowsSubRowDoublesZ},
					{each: rowsMulRowDoublesZ},
					{each: rowsDivRowDoublesZ, columns: rowsDivListDoublesZ},
					{each: rowsSubRowSubRowDoublesZ, columns: rowsSubListSubListDoublesZ},
					{each: rowsSubRowExpDoublesZ, sum: rowsSubRowExpSumDoublesZ, onlySum: rowsSubRowExpOnlySumDoublesZ},
					{each: rowsMulRowMulListDoublesZ},
					{each: rowsSubRowSubRowMulRowDoublesZ},
					{each: rowsSubRowSubRowMulRowMulListDoublesZ},
					{each: rowsSubRowSubRowMulRowMulListAddListDoublesZ},
					{each: rowsSubRowMulRowAddRowDoublesZ},
					{each: rowsSubRowExpMulRowDoublesZ, columns: rowsSubListExpMulListDoublesZ},
				},
				rows: map[ir.Op][]rowFold[float64]{
					ir.OpSoftmax:     {softmaxRowsDoublesZ},
					ir.OpLogSoftmax:  {logSoftmaxRowsDoublesZ},
					ir.OpLogSumExp:   {logSumExpRowsDoublesZ},
					ir.OpVariance:    {varianceRowsDoublesZ},
					ir.OpL2Normalize: {l2NormalizeRowsDoublesZ},
					ir.OpRMSNorm:     {rmsNormRowsDoublesZ, rmsNormListRowsDoublesZ},
					ir.OpLayerNorm:   {layerNormRowsDoublesZ, layerNormListRowsDoublesZ, layerNormListsRowsDoublesZ},
				},
				columns: map[ir.Op]columnFold[float64]{
					ir.OpSoftmax:     {softmaxColumnsDoublesZ, exponentialsOfColumnsDoublesZ},
					ir.OpLogSoftmax:  {logSoftmaxColumnsDoublesZ, exponentialsOfColumnsDoublesZ},
					ir.OpLogSumExp:   {logSumExpColumnsDoublesZ, exponentialsOfColumnsDoublesZ},
					ir.OpVariance:    {varianceColumnsDoublesZ, momentsOfColumnsDoublesZ},
					ir.OpL2Normalize: {l2NormalizeColumnsDoublesZ, squaresOfColumnsDoublesZ},
				},
				columnsIn: columnsInDoublesZ, columnsOut: columnsOutDoublesZ,
			},
			moments:  momentsZ,
			fused:    fusedStepsZ,
			narrower: list[0],
		})
	}
	return list
}

// keysOfColumns has the functions for keys, which exist for one width.
var keysOfColumns = keyFunctions{floatKeys, floatsOfKeys, doubleKeys, doublesOfKeys, numberedWords, numberedLongs}

// The functions that multiply by panels, by the scales of the panels: a scale per 32 elements, the same with minima,
// and a scale per 16 elements.
var (
	panelsOfScales = []panelTile{{8, panelScales8Z}, {4, panelScales4Z}, {2, panelScales2Z}, {1, panelScales1Z}}
	panelsOfMinima = []panelTile{{8, panelMinima8Z}, {4, panelMinima4Z}, {2, panelMinima2Z}, {1, panelMinima1Z}}
	panelsOfHalves = []panelTile{{8, panelHalves8Z}, {4, panelHalves4Z}, {2, panelHalves2Z}, {1, panelHalves1Z}}
)

func init() {
	if vectors {
		scans = [reducerKinds]scanFunctions{
			sumOfFloats:     {runningSum, runningSumEach},
			productOfFloats: {runningProduct, runningProductEach},
			leastFloat:      {runningLeast, runningLeastEach},
			greatestFloat:   {runningGreatest, runningGreatestEach},
		}
		runningSums[1], runningSums[2], runningSums[4] = running8, running16, running32
		between.doublesOfFloats, between.floatsOfDoubles = doublesOfFloats, floatsOfDoubles
		between.longsOfWords, between.longsOfUnsigned = longsOfWords, longsOfUnsigned
		between.wordsOfLongs, between.oddFloatsOfDoubles = wordsOfLongs, oddFloatsOfDoubles
	}
}

// exps replaces each x by exp(x-shift).
func exps(x []float32, shift float32) {
	whole := len(x) / lanes * lanes
	if !vectors || whole == 0 {
		expsPlain(x, shift)
		return
	}
	expsVectors(&x[0], shift, whole)
	expsPlain(x[whole:], shift)
}

// within reports whether the magnitudes of all elements are from least to most, by assembly where it can.
func within(list []float64, least, most float64) bool {
	whole := len(list) / 4 * 4
	if !vectors || whole == 0 {
		return withinPlain(list, least, most)
	}
	return withinDoubles(&list[0], least, most, whole) == 0 && withinPlain(list[whole:], least, most)
}

// replaceByVectors copies elements of `rows` rows of cols, which are apart elements from each other, to dst: see
// replace8 in the assembly. It returns false, and does nothing, for indices that the assembly does not take.
func replaceByVectors[D, S updatable, T index](dst []D, from []S, ids []T, rows, cols, apart, limit, stride,
	step int) bool {
	var id T
	size := unsafe.Sizeof(dst[0])
	if !vectors || unsafe.Sizeof(id) != 4 || unsafe.Sizeof(from[0]) != size || rows == 0 || cols == 0 || limit == 0 {
		return false
	}
	end := (rows-1)*apart + cols // the assembly checks no bounds
	_, _, _ = from[end-1], ids[end-1], dst[(limit-1)*stride+(cols-1)*step]
	f := map[uintptr]func(dst, from *byte, ids *uint32, rows, cols, apart, limit, stride, step int){
		1: replace8, 2: replace16, 4: replace32, 8: replace64}[size]
	f((*byte)(unsafe.Pointer(&dst[0])), (*byte)(unsafe.Pointer(&from[0])), (*uint32)(unsafe.Pointer(&ids[0])), rows,
		cols, apart, limit, stride, step)
	return true
}

// fill sets all elements of a list to x.
func fill(list []float32, x float32) {
	whole := 0
	if vectors && len(list) >= lanes {
		whole = len(list) / lanes * lanes
		repeatVectors(&list[0], x, whole)
	}
	fillPlain(list[whole:], x)
}

// transposeBlocks sets dst to the transposed matrix src, as far as whole blocks of the assembly reach. The rows of dst
// are `to` elements apart, and the rows of src `from`. It returns the rows and columns of dst that it set.
func transposeBlocks[T any](dst, src []T, to, from, rows, cols int) (wholeRows, wholeCols int) {
	size := int(unsafe.Sizeof(*new(T)))
	high := 16 / size // rows of a block in dst
	if size == 4 {
		high = lanes
	}
	rows, cols = rows/high*high, cols/lanes*lanes
	if !vectors || rows == 0 || cols == 0 {
		return 0, 0
	}
	_, _ = dst[:(rows-1)*to+cols], src[:(cols-1)*from+rows] // the assembly checks no bounds
	for r := 0; r < rows; r += high {
		out, in := (*byte)(unsafe.Pointer(&dst[r*to])), (*byte)(unsafe.Pointer(&src[r]))
		switch size {
		case 1:
			transposeRows8(out, in, to, from, cols/lanes)
		case 2:
			transposeRows16(out, in, 2*to, 2*from, cols/lanes)
		case 4:
			transpose8((*float32)(unsafe.Pointer(out)), (*float32)(unsafe.Pointer(in)), to, from, cols/lanes)
		case 8:
			transposeRows64(out, in, 8*to, 8*from, cols/lanes)
		}
	}
	return rows, cols
}

// assembledFormats returns the assembly of formats: the fields load and store.
func assembledFormats() map[ir.DType]format {
	if !vectors {
		return nil
	}
	return map[ir.DType]format{
		ir.U8: {load: wordsOfU8, store: bytesOfWords}, ir.I8: {load: wordsOfI8, store: bytesOfWords},
		ir.Bool: {load: wordsOfU8, store: bytesOfWords}, ir.U16: {load: wordsOfU16, store: halvesOfWords},
		ir.I16: {load: wordsOfI16, store: halvesOfWords}, ir.F16: {load: widenF16, store: narrowF16},
		ir.BF16: {load: widenBF16, store: narrowBF16},
	}
}

// assembled returns the assembly of primitives, by name.
func assembled() map[string]func(out, x, y, z *float32, n int) {
	if !vectors {
		return nil
	}
	return map[string]func(out, x, y, z *float32, n int){
		"+": addVectors, "-": subVectors, "*": mulVectors, "/": divVectors,
		"<": lessVectors, "<=": atMostVectors, ">": moreVectors, ">=": atLeastVectors,
		"==": equalVectors, "!=": differVectors, "?:": chooseVectors,
		"nan_min": minVectors, "nan_max": maxVectors, "neg": negVectors, "abs": absVectors,
		"sqrt": sqrtVectors, "floor": floorVectors, "ceil": ceilVectors, "roundEven": roundVectors,
		"trunc": truncVectors, roundings[ir.F16]: toF16Vectors, roundings[ir.BF16]: toBF16Vectors,

		"+ words": addWordsVectors, "- words": subWordsVectors, "* words": mulWordsVectors,
		"min words": minWordsVectors, "max words": maxWordsVectors, "min unsigned": minUnsignedVectors,
		"max unsigned": maxUnsignedVectors, "& words": andWordsVectors, "| words": orWordsVectors,
		"^ words": xorWordsVectors, "== words": equalWordsVectors, "> words": moreWordsVectors,
		"shift_left words": shiftLeftVectors, "shift_right words": shiftRightVectors, "div_int words": divIntsVectors,
		"rem_int words": remIntsVectors, "mod_int words": modIntsVectors,
		"?: words": chooseWordsVectors, floatOfWords: floatOfWordsVectors,
		floatOfUnsigned: floatOfUnsignedVectors, oddOfWords: oddOfWordsVectors, oddOfUnsigned: oddOfUnsignedVectors,
		wordOf[ir.I32]: wordOfFloatVectors, wordOf[ir.Bool]: truthOfFloatVectors,
		wrapTo[ir.I8]: signed8Vectors, wrapTo[ir.I16]: signed16Vectors, wrapTo[ir.U8]: unsigned8Vectors,
		wrapTo[ir.U16]: unsigned16Vectors, roundedTo[ir.I8]: roundToI8Vectors, roundedTo[ir.U8]: roundToU8Vectors,
	}
}

// assembledWide returns the assembly of primitives of 64 bits, by name.
func assembledWide() map[string]func(out, x, y, z *float64, n int) {
	if !vectors {
		return nil
	}
	return map[string]func(out, x, y, z *float64, n int){
		"+": addDoubles, "-": subDoubles, "*": mulDoubles, "/": divDoubles,
		"<": lessDoubles, "<=": atMostDoubles, ">": moreDoubles, ">=": atLeastDoubles,
		"==": equalDoubles, "!=": differDoubles, "?:": chooseDoubles,
		"nan_min": minDoubles, "nan_max": maxDoubles, "neg": negDoubles, "abs": absDoubles,
		"sqrt": sqrtDoubles, "floor": floorDoubles, "ceil": ceilDoubles, "roundEven": roundDoubles,
		"trunc": truncDoubles, roundings[ir.F32]: toF32Doubles,

		"+ words": addLongs, "- words": subLongs, "min words": minLongs, "max words": maxLongs, "& words": andLongs,
		"| words": orLongs, "^ words": xorLongs, "== words": equalLongs, "> words": moreLongs, "?: words": chooseLongs,
		floatOfWords: doubleOfLong, oddOfWords: oddOfLong, wordOfTruth: longOfTruth, wordOf[ir.Bool]: truthOfDouble, wordOf[ir.I32]: wordOfDouble,
		wrapTo[ir.I8]: long8, wrapTo[ir.I16]: long16, wrapTo[ir.I32]: long32, wrapTo[ir.U8]: unsignedLong8,
		wrapTo[ir.U16]: unsignedLong16, wrapTo[ir.U32]: unsignedLong32,
	}
}
