package serve

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// allowOrigin lets pages of the origins in Options.Origins read answers (Cross-Origin Resource Sharing, Fetch
// standard). If the request is a browser's preflight request, it answers it and returns true.
func (s *Server) allowOrigin(w http.ResponseWriter, r *http.Request) (preflight bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !s.allowsOrigin(origin) {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin") // caches must keep answers for different origins apart
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Warnings, Retry-After")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	h.Set("Access-Control-Max-Age", "600")
	if names := r.Header.Get("Access-Control-Request-Headers"); isHeaderList(names) {
		h.Set("Access-Control-Allow-Headers", names)
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// allowsOrigin reports whether pages of an origin may use the server.
func (s *Server) allowsOrigin(origin string) bool {
	return slices.Contains(s.o.Origins, "*") || slices.Contains(s.o.Origins, origin)
}

// isHeaderList reports whether a text is a list of names of headers, of a bounded length.
func isHeaderList(text string) bool {
	return text != "" && len(text) <= 1<<10 &&
		strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789-_, ") == ""
}

// isOrigin reports whether a text is an origin as browsers send it: a scheme and a host, perhaps with a port.
func isOrigin(text string) bool {
	scheme, host, ok := strings.Cut(text, "://")
	return ok && scheme != "" && host != "" && !strings.ContainsAny(host, "/?#@ ")
}

// CheckOrigin reports whether a text can be one of Options.Origins.
func CheckOrigin(text string) bool { return text == "*" || isOrigin(text) }

// knowsHost reports whether a request may name a host: this machine, or one in Options.Hosts.
func (s *Server) knowsHost(host string) bool {
	if isLoopback(host) {
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return slices.ContainsFunc(s.o.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}
