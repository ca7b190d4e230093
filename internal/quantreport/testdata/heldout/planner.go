// Package planner orders tasks by their dependencies and runs them on a bounded
// number of workers.
package planner

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"
)

// A Task is a unit of work that may need others to be done before it.
type Task struct {
	Name     string
	Needs    []string
	Priority int
	Run      func(ctx context.Context) error

	level   int
	waiting int
	users   []*Task
}

// CycleError reports tasks that need each other.
type CycleError struct {
	Names []string
}

func (e *CycleError) Error() string {
	return "planner: cycle: " + strings.Join(e.Names, " -> ")
}

// Plan is a set of tasks whose dependencies are known to be sound.
type Plan struct {
	tasks map[string]*Task
	order []*Task
}

// NewPlan checks the tasks and sorts them so that each comes after what it needs.
func NewPlan(tasks ...*Task) (*Plan, error) {
	p := &Plan{tasks: make(map[string]*Task, len(tasks))}
	for _, t := range tasks {
		if _, ok := p.tasks[t.Name]; ok {
			return nil, fmt.Errorf("planner: duplicate task %q", t.Name)
		}
		if t.Run == nil {
			return nil, fmt.Errorf("planner: task %q has nothing to run", t.Name)
		}
		p.tasks[t.Name] = t
	}
	for _, t := range tasks {
		for _, name := range t.Needs {
			needed, ok := p.tasks[name]
			if !ok {
				return nil, fmt.Errorf("planner: task %q needs %q, which does not exist", t.Name, name)
			}
			needed.users = append(needed.users, t)
		}
	}
	state := make(map[*Task]int)
	for _, t := range tasks {
		if err := p.visit(t, state, nil); err != nil {
			return nil, err
		}
	}
	return p, nil
}

const (
	unvisited = iota
	visiting
	visited
)

func (p *Plan) visit(t *Task, state map[*Task]int, path []string) error {
	path = append(path, t.Name)
	switch state[t] {
	case visited:
		return nil
	case visiting:
		return &CycleError{Names: path}
	}
	state[t] = visiting
	for _, name := range t.Needs {
		needed := p.tasks[name]
		if err := p.visit(needed, state, path); err != nil {
			return err
		}
		if needed.level >= t.level {
			t.level = needed.level + 1
		}
	}
	state[t] = visited
	p.order = append(p.order, t)
	return nil
}

// Levels groups the names of the tasks by the length of the longest chain that
// leads to them.
func (p *Plan) Levels() [][]string {
	var levels [][]string
	for _, t := range p.order {
		for len(levels) <= t.level {
			levels = append(levels, nil)
		}
		levels[t.level] = append(levels[t.level], t.Name)
	}
	return levels
}

// queue is a heap of tasks that are ready, the most urgent first.
type queue []*Task

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].Priority != q[j].Priority {
		return q[i].Priority > q[j].Priority
	}
	return q[i].Name < q[j].Name
}

func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *queue) Push(x any) { *q = append(*q, x.(*Task)) }

func (q *queue) Pop() any {
	old := *q
	n := len(old)
	t := old[n-1]
	old[n-1] = nil
	*q = old[:n-1]
	return t
}

// Result says how a task ended.
type Result struct {
	Name    string
	Err     error
	Elapsed time.Duration
	Skipped bool
}

// Run runs all tasks, at most workers at a time. When one fails, those that need
// it are skipped and the others go on. The error joins all failures.
func (p *Plan) Run(ctx context.Context, workers int) ([]Result, error) {
	if workers < 1 {
		return nil, errors.New("planner: need at least one worker")
	}
	var (
		mu      sync.Mutex
		ready   = &queue{}
		results []Result
		errs    []error
		failed  = make(map[string]bool)
		pending = len(p.order)
		wake    = sync.NewCond(&mu)
	)
	for _, t := range p.order {
		t.waiting = len(t.Needs)
		if t.waiting == 0 {
			heap.Push(ready, t)
		}
	}
	finish := func(t *Task, r Result) {
		results = append(results, r)
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", t.Name, r.Err))
		}
		if r.Err != nil || r.Skipped {
			failed[t.Name] = true
		}
		for _, user := range t.users {
			user.waiting--
			if user.waiting == 0 {
				heap.Push(ready, user)
			}
		}
		pending--
		wake.Broadcast()
	}
	var wg sync.WaitGroup
	for i := 0; i < workers; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			for pending > 0 {
				if ready.Len() == 0 {
					wake.Wait()
					continue
				}
				t := heap.Pop(ready).(*Task)
				if blocked(t, failed) || ctx.Err() != nil {
					finish(t, Result{Name: t.Name, Skipped: true})
					continue
				}
				mu.Unlock()
				start := time.Now()
				err := runSafely(ctx, t)
				elapsed := time.Since(start)
				mu.Lock()
				finish(t, Result{Name: t.Name, Err: err, Elapsed: elapsed})
			}
		}()
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		errs = append(errs, err)
	}
	return results, errors.Join(errs...)
}

func blocked(t *Task, failed map[string]bool) bool {
	for _, name := range t.Needs {
		if failed[name] {
			return true
		}
	}
	return false
}

// runSafely turns a panic of a task into an error.
func runSafely(ctx context.Context, t *Task) (err error) {
	defer func() {
		if r := recover(); r != nil {
			log.Printf("planner: task %s panicked: %v", t.Name, r)
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return t.Run(ctx)
}
