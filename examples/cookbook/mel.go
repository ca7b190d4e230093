package main

import (
	"context"
	"math"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

// mel turns sound into a log-mel spectrogram, the input of speech models. Frames of 400 samples, 160 apart, are
// gathered from the sound; the transform, the mel bands and the logarithm follow.
var mel = recipe{name: "mel", about: "a log-mel spectrogram, samples at 16 kHz",
	size: 10 * 16000, small: 2000,
	tolerance: 1e-3,
	prepare: func(_ context.Context, dev *vkc.Device, samples int) (task, error) {
		const length, hop, bands, rate = 400, 160, 40, 16000
		frames, window, bank := (samples-length)/hop+1, hann(length), melBank(bands, length, rate)
		spectrogram := vkc.FuncOn[func(sound []float32) ([][]float32, error)](dev,
			func(b *frontend.Builder, sound frontend.Tensor) frontend.Tensor {
				at := b.Iota(vkc.I32, 0, frames, length).MulScalar(hop).Add(b.Iota(vkc.I32, 1, frames, length))
				power := sound.Gather(0, at.Reshape(frames*length)).Reshape(frames, length).
					Mul(b.Const(window)).RFFT(1).Sqr().Sum(-1) // real and imaginary parts are the innermost axis
				return power.MatMulT(b.Const(bank)).AddScalar(1e-6).Log()
			})
		sound := noise(samples)
		for i := range sound {
			sound[i] = sound[i]/100 + float32(math.Sin(float64(i)*0.3))
		}
		return task{
			vkc: func() ([]float32, error) {
				out, err := spectrogram(sound)
				return slices.Concat(out...), err
			},
			plain: func() []float32 { return plainMel(sound, window, bank, frames, hop) },
		}, nil
	}}

// hann is the window of Hann.
func hann(n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/float64(n)))
	}
	return w
}

// melBank has a triangle of weights over the frequencies for each band. The bands are equally wide on the mel scale.
func melBank(bands, length, rate int) [][]float32 {
	mel := func(hertz float64) float64 { return 2595 * math.Log10(1+hertz/700) }
	top := mel(float64(rate) / 2)
	bank := make([][]float32, bands)
	for band := range bank {
		bank[band] = make([]float32, length/2+1)
		for f := range bank[band] {
			at := mel(float64(f*rate)/float64(length)) / top * float64(bands+1)
			bank[band][f] = float32(max(0, 1-math.Abs(at-float64(band+1))))
		}
	}
	return bank
}

// plainMel is the spectrogram by the definition of the discrete Fourier transform.
func plainMel(sound, window []float32, bank [][]float32, frames, hop int) (out []float32) {
	n := len(window)
	cos, sin := make([]float64, n), make([]float64, n)
	for i := range n {
		sin[i], cos[i] = math.Sincos(2 * math.Pi * float64(i) / float64(n))
	}
	power := make([]float64, n/2+1)
	for frame := range frames {
		for f := range power {
			re, im := 0.0, 0.0
			for i, w := range window {
				x := float64(sound[frame*hop+i] * w)
				re += x * cos[f*i%n]
				im -= x * sin[f*i%n]
			}
			power[f] = re*re + im*im
		}
		for _, band := range bank {
			sum := 1e-6
			for f, w := range band {
				sum += float64(w) * power[f]
			}
			out = append(out, float32(math.Log(sum)))
		}
	}
	return out
}
