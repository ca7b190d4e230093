package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pty opens a terminal. Writing to user types, and reading from it returns the output.
func pty(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	t.Cleanup(func() { user.Close() })
	fd := int(user.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// TestChatInTerminal types messages: a pasted one, one with an interrupted answer, and the end of input.
func TestChatInTerminal(t *testing.T) {
	model := withTemplate(t, "{% for m in messages %}// {{ m.role }}: {{ m.content }}\n{% endfor %}")
	user, program := pty(t)
	stdin, stdout := os.Stdin, os.Stdout
	os.Stdin, os.Stdout = program, program
	defer func() { os.Stdin, os.Stdout = stdin, stdout }()
	before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	const ended = "THE CHAT HAS ENDED"
	code := make(chan int, 1)
	var stderr said
	go func() {
		code <- execute(t.Context(), []string{"chat", "-m", model, "--device", "cpu", "--stats"}, program, &stderr)
		fmt.Fprint(program, ended) // for who waits for something else
	}()
	shown := ""
	until := func(want string) {
		t.Helper()
		for !strings.Contains(shown, want) {
			if strings.Contains(shown, ended) {
				t.Fatalf("it ends before it shows %q: %q %s", want, shown, &stderr)
			}
			b := make([]byte, 4096)
			n, err := user.Read(b)
			if err != nil {
				t.Fatalf("%v after %q", err, shown)
			}
			shown += string(b[:n])
		}
		shown = shown[strings.Index(shown, want)+len(want):]
	}
	until(chatMark)
	fmt.Fprint(user, "\x1b[200~/system one\rtwo\x1b[201~\r") // sets the system message to two lines
	until(chatMark)
	fmt.Fprint(user, "for \\\ri\r")
	until(moreMark)
	until("i")
	until("\r\n")
	fmt.Fprint(user, "\x03")
	until(chatMark)
	fmt.Fprint(user, "\x04")
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
	after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal is left otherwise than it was: %v, %+v, %+v", err, before, after)
	}
}
