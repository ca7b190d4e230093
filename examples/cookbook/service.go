package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend/onnx"
)

//go:embed linear.onnx
var linear []byte

// service serves an ONNX model, and runs requests that wait at the same time as one batch.
var service = recipe{name: "service", about: "an ONNX model over HTTP, with batching", size: 256, small: 8,
	prepare: func(ctx context.Context, dev *vkc.Device, requests int) (task, error) {
		model, err := onnx.NewReader(linear, onnx.Options{})
		if err != nil {
			return task{}, err
		}
		exe, err := dev.LoadGraph(ctx, model.Graph, model) // y = relu(x*w + c), for any number of rows x
		if err != nil {
			return task{}, err
		}
		b := &batcher{exe: exe, waiting: make(chan request)}
		var done sync.WaitGroup
		done.Go(b.serve)
		web := httptest.NewServer(b)
		return task{
			vkc: func() ([]float32, error) {
				out, errs, clients := make([]float32, 2*requests), make(chan error, requests), sync.WaitGroup{}
				for i := range requests {
					clients.Go(func() {
						r, err := http.PostForm(web.URL, url.Values{"x": {fmt.Sprintf("[%d, 1]", i)}})
						if err == nil {
							row := out[2*i : 2*i+2 : 2*i+2]
							err = json.NewDecoder(r.Body).Decode(&row)
							r.Body.Close()
						}
						errs <- err
					})
				}
				clients.Wait()
				close(errs)
				for err := range errs {
					if err != nil {
						return nil, err
					}
				}
				return out, nil
			},
			plain: func() (out []float32) {
				for i := range requests {
					x, y := float32(i), float32(1)
					out = append(out, max(0, x+3*y-10), 2*x+4*y+1)
				}
				return out
			},
			close: func() error {
				web.Close()
				close(b.waiting)
				done.Wait()
				return exe.Close()
			},
		}, nil
	}}
