package view

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"html"
	"net"
	"net/http"
	"strings"
)

//go:embed page/index.html
var pageHTML string

//go:embed page/view.css
var pageCSS string

//go:embed page/view.js
var pageJS string

// policy is the content security policy of the page: its own script and style, and nothing from elsewhere.
var policy = "default-src 'none'; script-src " + hashOf(pageJS) + "; style-src " + hashOf(pageCSS) +
	"; base-uri 'none'; form-action 'none'"

// hashOf returns the source expression of an inline script or style.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// HTML returns the page with the record in it, as one file without links to others.
func (r *Record) HTML() ([]byte, error) {
	data, err := json.Marshal(r) // it escapes <, so the record cannot end its element
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	strings.NewReplacer("{{title}}", html.EscapeString(r.Title), "{{policy}}", html.EscapeString(policy),
		"{{style}}", pageCSS, "{{record}}", string(data), "{{script}}", pageJS).WriteString(&b, pageHTML)
	return b.Bytes(), nil
}

// Handler returns a handler that serves a page at one path, which has a random token, and only to requests that name
// this machine as their host. So neither another user of the machine nor a web page from elsewhere can read the page.
func Handler(page []byte) (h http.Handler, path string) {
	token := rand.Text()
	path = "/" + token + "/"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		head.Set("X-Content-Type-Options", "nosniff")
		head.Set("X-Frame-Options", "DENY")
		head.Set("Referrer-Policy", "no-referrer")
		head.Set("Cache-Control", "no-store")
		switch {
		case !isLoopback(r.Host):
			http.Error(w, "the page is for this machine: use the address that vkc view printed", http.StatusForbidden)
		case subtle.ConstantTimeCompare([]byte(r.URL.Path), []byte(path)) != 1:
			http.Error(w, "the address that vkc view printed ends in a token, and this one has another",
				http.StatusNotFound)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			head.Set("Allow", "GET, HEAD")
			http.Error(w, "want GET", http.StatusMethodNotAllowed)
		default:
			head.Set("Content-Type", "text/html; charset=utf-8")
			w.Write(page)
		}
	}), path
}

// isLoopback reports whether a request's host is this machine.
func isLoopback(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}
