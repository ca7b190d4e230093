package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vkc-go/vkc/generate"
)

// Source is a model that is loaded when a request names it.
type Source struct {
	Name string
	// Open loads the model. Closing it frees its memory. The server answers with the options that Several has, except
	// the name.
	Open func(ctx context.Context, o Options) (*Server, io.Closer, error)
}

// Limits bound the models that are loaded at the same time.
type Limits struct {
	Models int           // maximum number of loaded models; 0 means any
	Idle   time.Duration // a model without requests for this time is unloaded; 0 means never
}

// Several serves several models from one address. It is an [http.Handler]. A request names its model in the field
// model, or in the parameter model of its query. Without a name it gets the first model. A model is loaded at its first
// request. If Limits.Models models are loaded, or there is no memory for one more, Several first unloads the model that
// has been without requests for the longest time.
type Several struct {
	*front
	limits  Limits
	sources []*loadable
	mu      sync.Mutex
	changed chan struct{} // is closed, and made again, when a model gets idle or is unloaded
	ended   context.Context
	end     context.CancelFunc
}

// front is the server of pages and lists, which needs no model.
type front struct{ *Server }

// loadable is a source and its model, if that is loaded.
type loadable struct {
	Source
	loading chan struct{} // is closed when loading ends; nil if nothing is loading
	server  *Server
	closer  io.Closer
	users   int // requests in progress
	since   time.Time
}

// NewSeveral returns a server of several models. It loads none.
func NewSeveral(list []Source, o Options, limits Limits) *Several {
	v := &Several{limits: limits, changed: make(chan struct{})}
	for _, s := range list {
		v.sources = append(v.sources, &loadable{Source: s})
	}
	o.Name = list[0].Name
	v.front = &front{New(textless{}, o)}
	v.Server.several = v
	v.Server.queue = make(chan struct{}, len(list)*(v.o.Queue+maxTexts)) // the models have queues of their own
	v.ended, v.end = context.WithCancel(context.Background())
	if limits.Idle > 0 {
		go v.unloadIdle()
	}
	return v
}

// ServeHTTP answers a request. A request that names a model goes to the model's server, and v's own server answers the
// others.
func (v *Several) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	target, ok := v.modelRoute(r)
	if !ok {
		v.Server.ServeHTTP(w, r)
		return
	}
	v.headers(w)
	if v.allowOrigin(w, r) {
		return
	}
	v.guarded(target, func(w http.ResponseWriter, r *http.Request) error {
		return v.forward(w, r, target.isForm())
	})(w, r)
}

// modelRoute returns the route of a request that one of the models answers. ok is false for the other requests.
func (v *Several) modelRoute(r *http.Request) (target route, ok bool) {
	_, pattern := v.mux.Handler(r) // "METHOD PATH", or only "PATH"
	_, path, _ := strings.Cut(pattern, " ")
	if r.Method != http.MethodPost && !slices.Contains(perModel, path) {
		return route{}, false
	}
	for _, known := range v.routes() {
		if known.method == r.Method && slices.Contains(known.aliases(), path) {
			return known, true
		}
	}
	return route{}, false
}

// perModel lists the paths of GET requests that one model answers.
var perModel = []string{"/props", "/slots", "/lora-adapters"}

// forward answers a request by the model that it names: in a form if isForm is set, and otherwise in JSON.
func (v *Several) forward(w http.ResponseWriter, r *http.Request, isForm bool) error {
	inBody := nameInJSON
	if isForm {
		inBody = nameInForm
	}
	name, err := inBody(r)
	if err != nil {
		return err
	}
	if q := r.URL.Query().Get("model"); q != "" {
		name = q
	}
	s, err := v.named(name)
	if err != nil {
		return err
	}
	ctx, cancel := v.withTimeout(r.Context())
	defer cancel()
	server, err := v.acquire(ctx, s)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	defer v.release(s)
	server.ServeHTTP(w, r)
	return nil
}

// nameInJSON returns the model that the body of a request names, and keeps the body.
func nameInJSON(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var q struct {
		Model any `json:"model"`
	}
	if r.Method != http.MethodPost || json.Unmarshal(body, &q) != nil { // the model's server reports the error
		return "", nil
	}
	name, _ := q.Model.(string)
	return name, nil
}

// nameInForm returns the model that the form of a request names, and keeps the form.
func nameInForm(r *http.Request) (string, error) {
	if err := readForm(r); err != nil {
		return "", err
	}
	if list := r.MultipartForm.Value["model"]; len(list) > 0 {
		return list[0], nil
	}
	return "", nil
}

// named returns the source of a name.
func (v *Several) named(name string) (*loadable, error) {
	for _, s := range v.sources {
		if s.Name == name || name == "" {
			return s, nil
		}
	}
	return nil, v.noModel(name)
}

// acquire returns the server of a source, which it loads if necessary. The model stays until release.
func (v *Several) acquire(ctx context.Context, s *loadable) (*Server, error) {
	for {
		v.mu.Lock()
		switch {
		case s.server != nil:
			s.users++
			v.mu.Unlock()
			return s.server, nil
		case s.loading != nil:
			// Another request loads the model. The loop looks again when it is done, because it may have failed.
			loading := s.loading
			v.mu.Unlock()
			if err := wait(ctx, loading); err != nil {
				return nil, err
			}
		case v.limits.Models > 0 && v.loaded() >= v.limits.Models:
			unloaded, changed := v.unloadOldest(), v.changed
			v.mu.Unlock()
			if unloaded {
				continue
			}
			if err := wait(ctx, changed); err != nil {
				return nil, err
			}
		default:
			s.loading = make(chan struct{})
			v.mu.Unlock()
			if err := v.load(s); err != nil {
				return nil, err
			}
		}
	}
}

// load loads a model. The caller has set s.loading, which load closes. If there is no memory for the model, load
// unloads models without requests, the longest idle first, until it fits.
func (v *Several) load(s *loadable) error {
	o := v.o
	o.Name = s.Name
	server, closer, err := s.Open(v.ended, o)
	for room := (*generate.RoomError)(nil); errors.As(err, &room); {
		v.mu.Lock()
		unloaded := v.unloadOldest()
		v.mu.Unlock()
		if !unloaded {
			break
		}
		server, closer, err = s.Open(v.ended, o)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	close(s.loading)
	s.loading = nil
	v.change() // wakes requests that wait for a place
	if err != nil {
		return fmt.Errorf("model %s: %w", s.Name, err)
	}
	s.server, s.closer, s.since = server, closer, time.Now()
	return nil
}

// wait waits for a channel.
func wait(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loaded returns the number of models that are loaded or loading. The caller has locked v.mu.
func (v *Several) loaded() (n int) {
	for _, s := range v.sources {
		if s.server != nil || s.loading != nil {
			n++
		}
	}
	return n
}

// change wakes the requests that wait for a model to be idle or gone. The caller has locked v.mu.
func (v *Several) change() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// release ends a request's use of a model.
func (v *Several) release(s *loadable) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s.users--
	if s.users == 0 {
		s.since = time.Now()
		v.change()
	}
}

// unloadOldest unloads the model that has been idle for the longest time, and reports whether there was one. The caller
// has locked v.mu; see unload.
func (v *Several) unloadOldest() bool {
	var oldest *loadable
	for _, s := range v.sources {
		if s.server != nil && s.users == 0 && (oldest == nil || s.since.Before(oldest.since)) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	v.unload(oldest)
	return true
}

// unload closes an idle model. The caller has locked v.mu. unload unlocks it while the model closes, and then locks it
// again.
func (v *Several) unload(s *loadable) {
	server, closer := s.server, s.closer
	s.server, s.closer = nil, nil
	s.loading = make(chan struct{}) // nobody loads it until its memory is free
	v.mu.Unlock()
	server.Wait()
	closer.Close()
	v.mu.Lock()
	close(s.loading)
	s.loading = nil
	v.change()
}

// unloadIdle unloads each model that has had no requests for the time Limits.Idle. It returns when v ends.
func (v *Several) unloadIdle() {
	for v.ended.Err() == nil {
		v.mu.Lock()
		next := v.limits.Idle // the time until the next model may be due
		var due *loadable
		for _, s := range v.sources {
			if s.server == nil || s.users > 0 {
				continue
			}
			if left := v.limits.Idle - time.Since(s.since); left <= 0 {
				due = s
			} else {
				next = min(next, left)
			}
		}
		if due != nil {
			v.unload(due)
			v.mu.Unlock()
			continue
		}
		v.mu.Unlock()
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-v.ended.Done():
		}
		timer.Stop()
	}
}

// servers returns the servers of the loaded models.
func (v *Several) servers() (list []*Server) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.sources {
		if s.server != nil {
			list = append(list, s.server)
		}
	}
	return list
}

// cards describes all models. The description of a model that is not loaded has its name and status only.
func (v *Several) cards() (list []map[string]any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.sources {
		card := map[string]any{"id": s.Name, "object": "model", "created": v.started.Unix(), "owned_by": "vkc"}
		status := "unloaded"
		switch {
		case s.server != nil:
			card = s.server.card(s.Name, "")
			status = "loaded"
		case s.loading != nil:
			status = "loading"
		}
		card["status"] = map[string]any{"value": status}
		list = append(list, card)
	}
	return list
}

// Cut ends the running and waiting answers, and returns their number.
func (v *Several) Cut() (n int) {
	for _, s := range v.servers() {
		n += s.Cut()
	}
	v.Server.Cut() // the requests that wait for a model
	return n
}

// Close unloads all models. It waits for requests in progress.
func (v *Several) Close() (err error) {
	v.end()
	v.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.sources {
		if s.server != nil {
			s.server.Wait()
			err = errors.Join(err, s.closer.Close())
			s.server, s.closer = nil, nil
		}
	}
	return err
}
