package interp

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// TestTeam: a team computes each task once, by workers that there are, and gives errors and panics to the caller.
func TestTeam(t *testing.T) {
	var own team
	for range 100 {
		const tasks, workers = 50, 3
		var counts [tasks]atomic.Int32
		var strange atomic.Int32
		ran, err := own.run(t.Context(), workers, tasks, func(worker, task int) {
			if counts[task].Add(1); worker < 0 || worker >= workers {
				strange.Add(1)
			}
		})
		if !ran || err != nil || strange.Load() > 0 {
			t.Fatalf("ran %v, error %v, %d tasks by a worker that there is not", ran, err, strange.Load())
		}
		for task := range counts {
			if n := counts[task].Load(); n != 1 {
				t.Fatalf("task %d ran %d times", task, n)
			}
		}
	}

	_, err := own.run(t.Context(), 2, 3, func(_, task int) {
		if ran, err := own.run(t.Context(), 2, 1, func(_, _ int) {}); ran || err != nil {
			t.Errorf("an op within an op has the team, too: %v", err)
		}
	})
	if err != nil {
		t.Error(err)
	}

	ended, end := context.WithCancel(t.Context())
	var after atomic.Int32
	_, err = own.run(ended, 1, 100, func(_, task int) {
		if end(); task > 0 {
			after.Add(1)
		}
	})
	if !errors.Is(err, context.Canceled) || after.Load() > 0 {
		t.Errorf("%d tasks after the end of the context, error %v", after.Load(), err)
	}

	defer func() {
		if p := recover(); p != "no" {
			t.Errorf("the panic is %v", p)
		}
		if ran, err := own.run(t.Context(), 2, 5, func(_, _ int) {}); !ran || err != nil {
			t.Errorf("after a panic: ran %v, %v", ran, err)
		}
	}()
	_, _ = own.run(t.Context(), 2, 5, func(_, task int) {
		if task == 3 {
			panic("no")
		}
	})
}
