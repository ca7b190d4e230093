package doctest

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestInTime: where VKC_TEST_UNTIL says when all ends, a test program gets less time than it was given, and never more,
// and one that would begin after that does not.
func TestInTime(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts are of a POSIX shell")
	}
	run := func(until time.Duration, bound string) (string, error) {
		cmd := exec.Command("../../scripts/in-time", "echo", bound, "-test.run=X")
		cmd.Env = append(os.Environ(), "VKC_TEST_UNTIL=")
		if until != 0 {
			cmd.Env = append(cmd.Env, fmt.Sprint("VKC_TEST_UNTIL=", time.Now().Add(until).Unix()))
		}
		text, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(text)), err
	}
	const given = "-test.timeout=5m0s"
	for until, want := range map[time.Duration]string{
		0:                given + " -test.run=X",
		time.Hour:        given + " -test.run=X",
		4 * time.Minute:  given + " -test.run=X -test.timeout=[0-9]+s",
		-1 * time.Minute: "in-time: no time is left for echo .*",
	} {
		text, err := run(until, given)
		if (err == nil) != (until >= 0) || !regexp.MustCompile("^"+want+"$").MatchString(text) {
			t.Errorf("with %v left: %q, %v, want %q", until, text, err, want)
		}
	}
	text, err := run(time.Hour, "-test.timeout=2h0m0s")
	if err != nil || !strings.Contains(text, "-test.run=X -test.timeout=") {
		t.Errorf("of two hours, with one left: %q, %v", text, err)
	}
}
