// Package golden compares results with files. It prints only the lines that differ, the file, and the command that
// rewrites it.
package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Check fails the test if have differs from the content of the file at path. If update is set it writes have to the
// file instead. command is the shell command that runs the test with update set, for the error message.
func Check(t testing.TB, path, have string, update bool, command string) {
	t.Helper()
	if update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%v\nThis command writes it: %s", err, command)
		return
	}
	if diff := Diff(string(want), have); diff != "" {
		t.Errorf("%s differs:\n%sIf the change is meant, this command writes it: %s", path, diff, command)
	}
}

// mostLines bounds the printed lines of a difference, and mostCells the memory for finding it.
const mostLines, mostCells = 40, 1 << 24

// Diff returns the lines that differ, each with its number: "-" for lines of want, "+" for lines of have. It returns ""
// if the texts are equal, and limits the number of lines.
func Diff(want, have string) string {
	if want == have {
		return ""
	}
	a, b := strings.Split(want, "\n"), strings.Split(have, "\n")
	// Equal lines at the beginning and end need no search.
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	last := 0
	for last < len(a)-first && last < len(b)-first && a[len(a)-1-last] == b[len(b)-1-last] {
		last++
	}
	var out strings.Builder
	lines := 0
	for _, e := range edits(a[first:len(a)-last], b[first:len(b)-last]) {
		lines++
		if lines > mostLines {
			out.WriteString("… more lines differ\n")
			break
		}
		fmt.Fprintf(&out, "%c%d: %s\n", e.sign, first+e.line+1, e.text)
	}
	return out.String()
}

// edit is a line that only one side has, at its index there.
type edit struct {
	sign rune
	line int
	text string
}

// edits returns a shortest list of lines to remove (-) and to add (+) that turns a into b. If both are too long for the
// search, it lists all lines of a, and then all of b.
func edits(a, b []string) (list []edit) {
	if (len(a)+1)*(len(b)+1) > mostCells {
		for i, s := range a[:min(len(a), mostLines)] {
			list = append(list, edit{'-', i, s})
		}
		for i, s := range b {
			list = append(list, edit{'+', i, s})
		}
		return list
	}
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			list = append(list, edit{'-', i, a[i]})
			i++
		default:
			list = append(list, edit{'+', j, b[j]})
			j++
		}
	}
	return list
}
