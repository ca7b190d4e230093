package clock

import (
	"context"
	"testing"
	"time"
)

func TestSpeed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	<-ctx.Done()
	<-time.After(time.Second)
	start := time.Now()
	if time.Since(start) > time.Second {
		t.Error("slow")
	}
	took := time.Now().Sub(start)
	if took < time.Second {
		t.Log(took)
	}
	cancel()
}
