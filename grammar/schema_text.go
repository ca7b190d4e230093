package grammar

// formats are patterns of strings.
var formats = map[string]string{
	"date": date, "time": clock, "date-time": date + "T" + clock,
	"uuid": `[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`,
}

// Dates and times are RFC 3339's, without leap days and leap seconds.
const (
	date = `[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|` +
		`02-(0[1-9]|1[0-9]|2[0-8]))`
	clock = `([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])`
)

// string returns the expression of the strings that a schema allows by its pattern, format and lengths.
func (s *schemas) string(o *object, where string) *expr {
	low, high := s.lengthBounds(o, where, "minLength", "maxLength")
	pattern, ok := o.values["pattern"].(string)
	if o.has("pattern") && !ok {
		return s.fail(where, "pattern: want a string")
	}
	if o.has("format") {
		name, _ := o.values["format"].(string)
		known, ok := formats[name]
		if !ok {
			return s.fail(where, "format %q is not supported: want date, time, date-time or uuid, or a pattern", name)
		}
		if o.has("pattern") {
			return s.fail(where, "format together with pattern is not supported: leave one out")
		}
		pattern = "^(" + known + ")$"
	}
	switch {
	case pattern == "" && low == 0 && high < 0:
		return s.anyString()
	case high >= 0 && low > high:
		return alt()
	case pattern == "":
		return seq(text(`"`), repeat(s.char(), low, high), text(`"`))
	case low > 0 || high >= 0:
		return s.fail(where, "minLength and maxLength together with a pattern or format are not supported: say the "+
			"length in it, as in ^[a-z]{1,8}$")
	}
	if !s.spend(32 * len(pattern)) {
		return alt()
	}
	p, err := parsePattern(pattern, s.spend)
	if err != nil {
		return s.fail(where, "pattern: %v", err)
	}
	return seq(text(`"`), s.searched(p, where, false, false), text(`"`))
}
