package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// maxTrace is the size in bytes of the largest trace that ReadRuns reads.
const maxTrace = 64 << 20

// ReadRuns reads the runs of a trace that vkc run --trace wrote. file names it for people.
func ReadRuns(r io.Reader, file string) ([]Run, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxTrace+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxTrace {
		return nil, fmt.Errorf("the trace has more than %d MiB: trace fewer runs", maxTrace>>20)
	}
	var trace struct {
		Events []struct {
			Name  string         `json:"name"`
			Phase string         `json:"ph"`
			PID   int            `json:"pid"`
			TID   int            `json:"tid"`
			Start float64        `json:"ts"`
			Took  float64        `json:"dur"`
			Args  map[string]any `json:"args"`
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(data, &trace); err != nil {
		return nil, fmt.Errorf("no trace of vkc run --trace: %w", err)
	}
	var runs []Run
	at := map[int]int{}      // index of a run, by process
	lane := map[[2]int]int{} // index of a lane of a run, by process and thread
	for _, e := range trace.Events {
		i, ok := at[e.PID]
		if !ok {
			i = len(runs)
			at[e.PID] = i
			runs = append(runs, Run{File: filepath.Base(file)})
		}
		run := &runs[i]
		key := [2]int{e.PID, e.TID}
		j, ok := lane[key]
		if !ok && (e.Phase == "X" || e.Name == "thread_name") {
			j = len(run.Lanes)
			lane[key] = j
			run.Lanes = append(run.Lanes, Lane{Spans: []Span{}})
		}
		name, _ := e.Args["name"].(string)
		switch {
		case e.Phase == "X":
			l := &run.Lanes[j]
			l.Spans = append(l.Spans, Span{Name: e.Name, Start: e.Start, Took: e.Took, Args: e.Args})
		case e.Name == "process_name":
			run.Name = name
		case e.Name == "thread_name":
			run.Lanes[j].Name = name
		}
	}
	if len(runs) == 0 {
		return nil, errors.New("the trace has no events: want a file of vkc run --trace")
	}
	for i, r := range runs {
		runs[i].Name = strings.TrimSpace(r.Name)
	}
	return runs, nil
}
