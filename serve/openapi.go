package serve

import (
	"encoding/json"
	"mime/multipart"
	"net/http"
	"reflect"
	"strings"
)

// route is a path of the server. Its long form may begin with /v1.
type route struct {
	method, path string
	answer       func(http.ResponseWriter, *http.Request) error
	about        string // one sentence
	body         any    // a zero value of the type of the request's JSON or form; nil without a body
}

// isForm reports whether requests are forms with a file, and not JSON.
func (r route) isForm() bool {
	_, ok := r.body.(audioForm)
	return ok
}

// aliases returns the paths of the route, without /v1 too.
func (r route) aliases() []string {
	if short, ok := strings.CutPrefix(r.path, "/v1"); ok {
		return []string{r.path, short}
	}
	return []string{r.path}
}

// openAPI answers GET /openapi.json: a description of all routes (OpenAPI 3.1), made of their rows.
func (s *Server) openAPI(w http.ResponseWriter, _ *http.Request) error {
	paths := map[string]map[string]any{}
	for _, r := range s.routes() {
		operation := map[string]any{"summary": r.about, "responses": map[string]any{
			"200":     map[string]any{"description": "the answer"},
			"default": map[string]any{"description": "an error, as {\"error\": {\"message\": TEXT}}"}}}
		if r.body != nil {
			kind := "application/json"
			if r.isForm() {
				kind = "multipart/form-data"
			}
			operation["requestBody"] = map[string]any{"required": true, "content": map[string]any{
				kind: map[string]any{"schema": schemaOf(reflect.TypeOf(r.body))}}}
		}
		var parameters []any
		for part := range strings.SplitSeq(r.path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				parameters = append(parameters, map[string]any{"name": strings.TrimSuffix(name, "}"), "in": "path",
					"required": true, "schema": map[string]any{"type": "string"}})
			}
		}
		if parameters != nil {
			operation["parameters"] = parameters
		}
		if paths[r.path] == nil {
			paths[r.path] = map[string]any{}
		}
		paths[r.path][strings.ToLower(r.method)] = operation
	}
	writeJSON(w, http.StatusOK, map[string]any{"openapi": "3.1.0", "paths": paths,
		"info": map[string]any{"title": "vkc serve", "version": "1",
			"description": "A language model. Fields with the value null count as absent."},
		"components": map[string]any{"securitySchemes": map[string]any{
			"key": map[string]any{"type": "http", "scheme": "bearer"}}},
		"security": []any{map[string]any{}, map[string]any{"key": []any{}}}})
	return nil
}

// schemaOf returns a JSON Schema of the values that package json decodes into a Go type. For a type with its own
// decoder that is any value. Kinds that are not listed are integers.
func schemaOf(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return map[string]any{}
	}
	if t == reflect.TypeFor[multipart.FileHeader]() {
		return map[string]any{"type": "string", "format": "binary"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		properties := map[string]any{}
		for _, f := range reflect.VisibleFields(t) {
			name := f.Tag.Get("json")
			if name == "" {
				name = strings.ToLower(f.Name)
			}
			if !f.Anonymous { // the fields of an embedded struct are listed themselves
				properties[name] = schemaOf(f.Type)
			}
		}
		return map[string]any{"type": "object", "properties": properties}
	}
	return map[string]any{"type": "integer"}
}
