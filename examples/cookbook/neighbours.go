package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"

	"github.com/vkc-go/vkc"
	"github.com/vkc-go/vkc/frontend"
)

// neighbours is a service that stores vectors and finds the nearest ones over HTTP. The vectors are a state of two
// programs, one that writes a row in place and one that searches. They never leave the device.
var neighbours = recipe{name: "neighbours", about: "nearest vectors over HTTP, with updates", size: 20000, small: 50,
	prepare: func(ctx context.Context, dev *vkc.Device, n int) (task, error) {
		const dims, k = 64, 5
		s, err := newStore(ctx, dev, n, dims, k)
		if err != nil {
			return task{}, err
		}
		web := httptest.NewServer(s)
		vectors := rowsOf(noise(n*dims), dims)
		for i, v := range vectors {
			if err := s.put(ctx, i, v); err != nil {
				return task{}, err
			}
		}
		query := vectors[n/2]
		return task{
			vkc: func() (nearest []float32, err error) {
				r, err := http.PostForm(web.URL, url.Values{"query": {string(vkc.Must(json.Marshal(query)))}})
				if err != nil {
					return nil, err
				}
				defer r.Body.Close()
				return nearest, json.NewDecoder(r.Body).Decode(&nearest)
			},
			plain: func() (nearest []float32) {
				far, order := make([]float32, n), make([]int, n)
				for i, v := range vectors {
					order[i] = i
					for d, x := range v {
						far[i] += (x - query[d]) * (x - query[d])
					}
				}
				slices.SortFunc(order, func(a, b int) int { return cmp.Compare(far[a], far[b]) })
				for _, i := range order[:k] {
					nearest = append(nearest, float32(i))
				}
				return nearest
			},
			close: func() error {
				web.Close()
				return errors.Join(s.search.Close(), s.write.Close())
			},
		}, nil
	}}

// store has vectors on the device. A request with a JSON list as query gets the numbers of the nearest vectors.
type store struct{ write, search *vkc.Executable }

func newStore(ctx context.Context, dev *vkc.Device, n, dims, k int) (*store, error) {
	load := func(share *vkc.Executable, define func(b *frontend.Builder)) (*vkc.Executable, error) {
		g, err := frontend.Build("neighbours", define)
		if err != nil {
			return nil, err
		}
		return dev.LoadGraph(ctx, g, nil, vkc.LoadOptions{Share: share})
	}
	write, err := load(nil, func(b *frontend.Builder) {
		vectors := b.State("vectors", vkc.F32, n, dims)
		row, at := b.Input("row", vkc.F32, 1, dims), b.Input("at", vkc.I32)
		b.Update(vectors, vectors.DynamicUpdateSlice(0, row, at))
	})
	if err != nil {
		return nil, err
	}
	search, err := load(write, func(b *frontend.Builder) {
		vectors, query := b.State("vectors", vkc.F32, n, dims), b.Input("query", vkc.F32, dims)
		b.Output("nearest", vectors.Sub(query).Sqr().Sum(-1).BottomKIndices(0, k))
	})
	return &store{write, search}, err
}

func (s *store) put(ctx context.Context, at int, vector []float32) error {
	_, err := s.write.Run(ctx, vkc.Tensors{"row": vkc.Must(vkc.Of(vector, 1, len(vector))),
		"at": vkc.Must(vkc.Of([]int32{int32(at)}))})
	return err
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	nearest, err := s.find(r.Context(), r.FormValue("query"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	json.NewEncoder(w).Encode(nearest)
}

// find searches for a vector in JSON. Run returns an error if its length is wrong.
func (s *store) find(ctx context.Context, text string) ([]int32, error) {
	var query []float32
	if err := json.Unmarshal([]byte(text), &query); err != nil {
		return nil, err
	}
	res, err := s.search.Run(ctx, vkc.Tensors{"query": vkc.Must(vkc.Of(query, len(query)))})
	if err != nil {
		return nil, err
	}
	return vkc.Values[int32](res.Outputs["nearest"])
}
