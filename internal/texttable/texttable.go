// Package texttable reads small tables that are written as text in the source, one row a line.
package texttable

import "strings"

// ByFirst splits a table into the fields of its lines, by their first field. Lines with the same first field keep their
// order.
func ByFirst(table string) map[string][][]string {
	all := map[string][][]string{}
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 0 {
			all[f[0]] = append(all[f[0]], f[1:])
		}
	}
	return all
}
