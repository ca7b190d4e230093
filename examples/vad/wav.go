package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
)

// readWAV returns the sound of a 16-bit WAV file, resampled to hz samples per second, as numbers from -1 to 1. It
// mixes the channels.
func readWAV(path string, hz int) ([]float32, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	samples, from, err := parseWAV(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return resampled(samples, from, hz), nil
}

// parseWAV returns the samples of a file and their number per second.
func parseWAV(b []byte) (samples []float32, hz int, err error) {
	if len(b) < 12 || string(b[:4]) != "RIFF" || string(b[8:12]) != "WAVE" {
		return nil, 0, errors.New("it is no WAV file")
	}
	channels := 0
	for b = b[12:]; len(b) >= 8; {
		id, n := string(b[:4]), int(min(binary.LittleEndian.Uint32(b[4:]), uint32(len(b)-8)))
		part := b[8 : 8+n] // programs that write to a pipe do not know how long the last one is
		b = b[min(8+n+n%2, len(b)):]
		switch {
		case id == "fmt " && n >= 16:
			format, bits := binary.LittleEndian.Uint16(part), binary.LittleEndian.Uint16(part[14:])
			channels, hz = int(binary.LittleEndian.Uint16(part[2:])), int(binary.LittleEndian.Uint32(part[4:]))
			if format != 1 || bits != 16 || channels == 0 || hz < 1000 || hz > 1e6 {
				return nil, 0, fmt.Errorf("format %d, %d channels of %d bits, %d samples a second: want PCM of 16 bits",
					format, channels, bits, hz)
			}
		case id == "data" && channels > 0:
			samples = make([]float32, n/2/channels)
			for i := range samples {
				for c := range channels {
					v := int16(binary.LittleEndian.Uint16(part[2*(i*channels+c):]))
					samples[i] += float32(v) / float32(32768*channels)
				}
			}
			return samples, hz, nil
		}
	}
	return nil, 0, errors.New("it has no sound")
}

// resampled resamples by linear interpolation.
func resampled(samples []float32, from, to int) []float32 {
	if from == to || len(samples) == 0 {
		return samples
	}
	out := make([]float32, len(samples)*to/from)
	for i := range out {
		at := float64(i) * float64(from) / float64(to)
		k := min(int(at), len(samples)-1)
		next := samples[min(k+1, len(samples)-1)]
		out[i] = samples[k] + float32(at-float64(k))*(next-samples[k])
	}
	return out
}
