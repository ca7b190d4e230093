// Package caught has bailouts, some of which nothing catches.
package caught

import (
	"sync"

	"github.com/vkc-go/vkc/internal/bailout"
)

func work() int { return bailout.Must(1, nil) }

// Caught catches what work throws.
func Caught() (n int, err error) {
	defer bailout.Caught(&err)
	return work(), nil
}

// Leaks catches nothing.
func Leaks() int { // want `Leaks lets a bailout out of the package`
	return work()
}

type state struct{}

// Read may be a method of another package's interface.
func (state) Read() { // want `Read lets a bailout out of the package`
	func() { bailout.Check(nil) }()
}

// each calls do, and does not catch.
func each(do func()) { do() }

// every calls do in a function that catches.
func every(do func()) (err error) {
	return func() (err error) {
		defer bailout.Caught(&err)
		do()
		return nil
	}()
}

// Each passes on what each lets out.
func Each() { // want `Each lets a bailout out of the package`
	each(func() { work() })
}

// Every is fine.
func Every() error { return every(func() { work() }) }

// Starts starts goroutines.
func Starts() {
	var group sync.WaitGroup
	go work()                   // want `this goroutine lets a bailout out`
	group.Go(func() { work() }) // want `this goroutine lets a bailout out`
	group.Go(func() { _ = Every() })
	group.Wait()
}

type row struct{ work func() int }

var rows = []row{{work: func() int { return work() }}}

var table = map[string]func(){ // want `a variable of the package lets a bailout out of the package`
	"work": func() { work() },
}
