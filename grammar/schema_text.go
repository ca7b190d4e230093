package grammar

import (
	"encoding/json"
	"slices"
)

// texts are several values of a keyword that must all hold, such as two patterns. Merging schemas makes them; no schema
// that a client sends has such a value.
type texts []string

// textsOf returns the values of pattern or format.
func textsOf(v any) texts {
	switch v := v.(type) {
	case string:
		return texts{v}
	case texts:
		return v
	}
	return nil
}

// formats are patterns of strings. Some allow fewer strings than their standards do, for example shorter ones.
var formats = map[string]string{
	"date": date, "time": clock, "date-time": `(` + date + `)T` + clock,
	"duration": `P(` + `(` + durationYear + `|` + durationMonth + `|` + durationDay + `)(` + durationTime + `)?|` +
		durationTime + `|[0-9]{1,9}W)`,
	"uuid":  `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`,
	"email": email, "idn-email": email, "hostname": hostname, "idn-hostname": hostname,
	"ipv4": `(` + octet + `\.){3}` + octet, "ipv6": ipv6,
	"uri": uri, "iri": uri, "uri-reference": uri, "iri-reference": uri, "uri-template": uri,
	"json-pointer": pointer, "relative-json-pointer": `(0|[1-9][0-9]{0,8})(#|` + pointer + `)`,
}

const (
	// Dates and times are RFC 3339's, without leap seconds.
	date = `[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|` +
		`02-(0[1-9]|1[0-9]|2[0-8]))|([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29`
	clock = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`

	// Durations follow RFC 3339, appendix A.
	durationTime  = `T([0-9]{1,9}H([0-9]{1,9}M([0-9]{1,9}S)?)?|[0-9]{1,9}M([0-9]{1,9}S)?|[0-9]{1,9}S)`
	durationDay   = `[0-9]{1,9}D`
	durationMonth = `[0-9]{1,9}M(` + durationDay + `)?`
	durationYear  = `[0-9]{1,9}Y(` + durationMonth + `)?`

	label    = `[a-zA-Z0-9](-?[a-zA-Z0-9]){0,20}`
	hostname = label + `(\.` + label + `){0,4}`
	atom     = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
	email    = atom + `(\.` + atom + `){0,2}@` + label + `(\.` + label + `){1,4}`
	octet    = `(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])`
	group    = `[0-9a-fA-F]{1,4}`
	ipv6     = `(` + group + `:){7}` + group + `|(` + group + `:){1,7}:|(` + group + `:){1,6}:` + group +
		`|(` + group + `:){1,5}(:` + group + `){1,2}|(` + group + `:){1,4}(:` + group + `){1,3}` +
		`|(` + group + `:){1,3}(:` + group + `){1,4}|(` + group + `:){1,2}(:` + group + `){1,5}` +
		`|` + group + `:(:` + group + `){1,6}|:((:` + group + `){1,7}|:)`

	// URIs follow RFC 3986, with a host, or without one and its slashes.
	uriChar = `([a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})`
	uri     = `[a-zA-Z][a-zA-Z0-9+.-]*:(//` + hostname + `(:[0-9]{1,4})?(/` + uriChar + `*)*|` + uriChar + `+(/` + uriChar +
		`+)*)(\?(` + uriChar + `|[/?])*)?(#(` + uriChar + `|[/?])*)?`
	pointer = `(/([^~/]|~[01])*)*`
)

// numberFormats are the ranges of integers that OpenAPI, and libraries of typed languages, name as formats.
var numberFormats = map[string][2]json.Number{
	"int8": {"-128", "127"}, "int16": {"-32768", "32767"}, "int32": {"-2147483648", "2147483647"},
	"int64": {"-9223372036854775808", "9223372036854775807"}, "uint8": {"0", "255"}, "uint16": {"0", "65535"},
	"uint32": {"0", "4294967295"}, "uint64": {"0", "18446744073709551615"},
}

// string returns the expression of the strings that a schema allows by its patterns, formats and lengths.
func (s *schemas) string(o *object, where string) *expr {
	l, ok := s.languageOf(o, where)
	switch {
	case !ok || l.high >= 0 && l.low > l.high:
		return alt()
	case len(l.parts) == 0 && l.low == 0 && l.high < 0:
		return s.anyString()
	case len(l.parts) == 0:
		return seq(text(`"`), repeat(s.char(), l.low, l.high), text(`"`))
	case len(l.parts) == 1 && l.low == 0 && l.high < 0 && l.parts[0].pattern.isPlain():
		return seq(text(`"`), s.searched(l.parts[0].pattern, where, false, false), text(`"`))
	}
	return seq(text(`"`), s.strings(l, where), text(`"`))
}

// languageOf returns the language of the strings that a schema allows by its length bounds, patterns and formats.
func (s *schemas) languageOf(o *object, where string) (l language, ok bool) {
	l.low, l.high = s.lengthBounds(o, where, "minLength", "maxLength")
	sources := textsOf(o.values["pattern"])
	names := textsOf(o.values["format"])
	if o.has("pattern") && sources == nil || o.has("format") && names == nil {
		s.fail(where, "pattern and format: want a string")
		return l, false
	}
	if len(sources) == 1 && sources[0] == "" {
		sources = nil // the empty pattern matches all strings
	}
	for _, name := range names {
		source, known := formats[name]
		switch {
		case known:
			sources = append(slices.Clone(sources), "^("+source+")$")
		case name == "regex" && s.strict: // JSON Schema defines it; unknown formats are annotations
			s.fail(where, "format %q is not supported: leave it out, or express it as a pattern", name)
			return l, false
		}
	}
	for _, source := range sources {
		if !s.spend(32 * len(source)) {
			return l, false
		}
		p, err := parsePattern(source, s.spend)
		if err != nil {
			s.fail(where, "pattern: %v", err)
			return l, false
		}
		l.parts = append(l.parts, part{pattern: p})
	}
	return l, true
}
