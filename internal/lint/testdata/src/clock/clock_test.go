package clock

import (
	"context"
	"testing"
	"time"
)

func TestLimits(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // want `context.WithTimeout in a test: wait for the event itself`
	defer cancel()
	<-ctx.Done()
	<-time.After(time.Second) // want `time.After in a test`
	start := time.Now()
	if time.Since(start) > time.Second { // want `a test compares how long something took`
		t.Error("slow")
	}
	took := time.Now().Sub(start)
	if took < time.Second { // want `a test compares how long`
		t.Log(took)
	}
	time.Sleep(time.Millisecond)
	ctx, cancel = context.WithTimeout(ctx, time.Second) // clock: either end is right
	if d := 2 * time.Second; d > time.Second {
		t.Log(time.Since(start))
	}
}
