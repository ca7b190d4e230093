package main

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/vkc-go/vkc"
)

// batcher collects rows of requests.
type batcher struct {
	exe     *vkc.Executable
	waiting chan request
}

// request is a row, and where its answer goes.
type request struct {
	x      [2]float32
	answer chan<- any // a row of floats, or an error
}

func (b *batcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := make(chan any, 1)
	one := request{answer: answer}
	if err := json.Unmarshal([]byte(r.FormValue("x")), &one.x); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.waiting <- one
	switch y := (<-answer).(type) {
	case error:
		http.Error(w, y.Error(), http.StatusInternalServerError)
	default:
		json.NewEncoder(w).Encode(y)
	}
}

// serve runs a batch as soon as the last one is done, with all requests that came meanwhile, at most 64.
func (b *batcher) serve() {
	run := vkc.Tensors{}
	for first := range b.waiting {
		batch := []request{first}
		for more := true; more && len(batch) < 64; {
			select {
			case next, ok := <-b.waiting:
				if more = ok; ok {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		b.answer(run, batch)
	}
}

func (b *batcher) answer(in vkc.Tensors, batch []request) {
	var rows []float32
	for _, r := range batch {
		rows = append(rows, r.x[:]...)
	}
	in["x"] = vkc.Must(vkc.Of(rows, len(batch), 2))
	res, err := b.exe.Run(context.Background(), in)
	var y []float32
	if err == nil {
		y, err = vkc.Values[float32](res.Outputs["y"])
	}
	for i, r := range batch {
		if err != nil {
			r.answer <- err
		} else {
			r.answer <- y[2*i : 2*i+2]
		}
	}
}
