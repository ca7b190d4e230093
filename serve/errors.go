package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/vkc-go/vkc/grammar"
)

// refusal is an error of a request with the fields that the protocol defines.
type refusal struct {
	status  int
	param   string // the field that is wrong, or ""
	message string
	code    string // the protocol's word for the error, or ""
}

func (r *refusal) Error() string { return r.message }

// refuse returns an error for a request: its status, the invalid field or "", and a description.
func refuse(status int, param, format string, args ...any) error {
	return &refusal{status: status, param: param, message: fmt.Sprintf(format, args...)}
}

// errorTypes are the protocol's names of errors by status.
var errorTypes = map[int]string{
	http.StatusUnauthorized:    "authentication_error",
	http.StatusForbidden:       "permission_error",
	http.StatusNotFound:        "not_found_error",
	http.StatusTooManyRequests: "rate_limit_error",
}

// codes are the protocol's codes of errors by status.
var codes = map[int]string{
	http.StatusUnauthorized:    "invalid_api_key",
	http.StatusNotFound:        "model_not_found",
	http.StatusTooManyRequests: "rate_limit_exceeded",
}

// refusalOf converts any error to a refusal. An error that is not the client's is the server's.
func refusalOf(err error) *refusal {
	var r *refusal
	var tooLarge *http.MaxBytesError
	var text *grammar.TextError
	switch {
	case errors.As(err, &r):
		return r
	case errors.As(err, &text): // the request's grammar, schema or tools allow no further token
		return &refusal{status: http.StatusBadRequest, message: text.Error()}
	case errors.As(err, &tooLarge):
		return &refusal{status: http.StatusRequestEntityTooLarge,
			message: fmt.Sprintf("the request is longer than %d bytes, the server's limit: shorten it", tooLarge.Limit)}
	case errors.Is(err, context.Canceled), errors.Is(err, errGone):
		return &refusal{status: statusClientClosed, message: "the client is gone"}
	}
	return &refusal{status: http.StatusInternalServerError, message: err.Error()}
}

// statusClientClosed is recorded if the client disconnected. It is never sent.
const statusClientClosed = 499

// errorBody returns the JSON of an error as OpenAI's and Anthropic's protocols have it.
func errorBody(err error) any {
	r := refusalOf(err)
	kind := errorTypes[r.status]
	switch {
	case kind != "":
	case r.status >= 500:
		kind = "server_error"
	default:
		kind = "invalid_request_error"
	}
	var param any
	if r.param != "" {
		param = r.param
	}
	code := any(codes[r.status])
	switch {
	case r.code != "":
		code = r.code
	case code == "" || r.status == http.StatusNotFound && r.param != "model":
		code = nil
	}
	return map[string]any{"type": "error", // Anthropic's protocol wants it
		"error": map[string]any{"message": r.message, "type": kind, "param": param, "code": code}}
}

// fail answers with an error.
func fail(w http.ResponseWriter, err error) {
	r := refusalOf(err)
	if r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if r.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, r.status, errorBody(err))
}

// writeJSON answers with a value. A client that does not read it is gone.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(v)
}
