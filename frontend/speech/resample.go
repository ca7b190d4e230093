package speech

import "math"

// resampler changes the rate of sound to Rate. Each new sample is the sum of the old ones nearby, weighted by a sinc
// function under a Kaiser window (Smith, "Digital Audio Resampling", 2002).
type resampler struct {
	step  float64   // old samples per new one
	cut   float64   // the frequency above which sound is removed, as a part of half the old rate
	reach int       // old samples on each side that a new one depends on
	table []float64 // the weights, tableSteps for each crossing of zero
	past  []float64 // old samples, the first at position begin
	begin int64
	count int64 // old samples so far
	made  int64 // new samples so far
	total int64 // new samples in all, once ended
	ended bool
	rate  int
}

const (
	crossings  = 24  // of zero, on each side of the sinc function
	tableSteps = 512 // between two of them
	kaiserBeta = 9
	passed     = 0.95 // of the lower of both rates' frequencies
)

// sincTable has the sinc function under the window, from its center to its end.
var sincTable = func() []float64 {
	table := make([]float64, crossings*tableSteps+2) // zeros at the end
	for i := range crossings * tableSteps {
		x := float64(i) / tableSteps
		table[i] = bessel(kaiserBeta*math.Sqrt(1-float64(x/crossings*(x/crossings)))) / bessel(kaiserBeta)
		if i > 0 {
			table[i] *= math.Sin(math.Pi*x) / (math.Pi * x)
		}
	}
	return table
}()

// bessel returns the modified Bessel function of order 0, by its series.
func bessel(x float64) float64 {
	sum, term := 1.0, 1.0
	for k := 1.0; term > 1e-17*sum; k++ {
		term = float64(term * (x / 2 / k) * (x / 2 / k))
		sum += term
	}
	return sum
}

// newResampler returns a resampler of sound with that rate.
func newResampler(rate int) *resampler {
	r := &resampler{rate: rate, step: float64(rate) / Rate, cut: passed * min(1, Rate/float64(rate)), table: sincTable}
	r.reach = int(math.Ceil(crossings / r.cut))
	return r
}

// resampled returns how many samples n samples of another rate become.
func resampled(n int64, rate int) int64 {
	whole, rest := n/int64(rate), n%int64(rate)
	return whole*Rate + (rest*Rate+int64(rate)-1)/int64(rate)
}

// add takes the next old sample.
func (r *resampler) add(v float64) {
	r.past = append(r.past, v)
	r.count++
}

// end says that there are no more old samples.
func (r *resampler) end() { r.ended, r.total = true, resampled(r.count, r.rate) }

// next returns the next new sample, or false if it needs further old ones. It is a sum of the old samples around its
// time, weighted by a table of the filter.
func (r *resampler) next() (sample float32, ok bool) {
	whole := r.made / Rate * int64(r.rate) // computed in integers, so that long sounds have no drift
	at := float64(float64(r.made%Rate) * r.step)
	center := whole + int64(at)
	at -= math.Trunc(at) // between two old samples
	if r.ended && r.made >= r.total || !r.ended && center+int64(r.reach) >= r.count {
		return 0, false
	}
	first, last := max(center-int64(r.reach)+1, 0), min(center+int64(r.reach), r.count-1)
	// Now and then, forget samples that are no longer needed.
	if drop := int(first - r.begin); drop > 4*r.reach+1<<12 {
		r.past = r.past[:copy(r.past, r.past[drop:])]
		r.begin = first
	}
	sum := 0.0
	for i := first; i <= last; i++ {
		x := float64(math.Abs(float64(i-center)-at) * r.cut * tableSteps)
		if j := int(x); j < len(r.table)-1 {
			weight := r.table[j] + float64((x-float64(j))*(r.table[j+1]-r.table[j]))
			sum += float64(r.past[i-r.begin] * weight)
		}
	}
	r.made++
	return float32(sum * r.cut), true
}
