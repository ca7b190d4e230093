package chat

import (
	"fmt"
	"strings"
	"time"
)

// layouts maps each letter of strftime to the layout of package time.
var layouts = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
	'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'j': "002", 'e': "_2", 'Z': "MST", 'z': "-0700",
	'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04", 'x': "01/02/06", 'X': "15:04:05",
	'c': "Mon Jan _2 15:04:05 2006",
}

// strftime formats a time as C and Python do. A - after the % omits leading zeros.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format)
		if bare {
			i++
		}
		layout, ok := layouts[format[i]]
		switch {
		case format[i] == '%':
			b.WriteByte('%')
		case !ok:
			fail("strftime_now: %%%c is not supported", format[i])
		case bare:
			s := strings.TrimLeft(t.Format(layout), "0 ")
			if s == "" {
				s = "0"
			}
			fmt.Fprint(&b, s)
		default:
			b.WriteString(t.Format(layout))
		}
	}
	return b.String()
}
